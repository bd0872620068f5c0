"""Groups and chords are admitted or refused whole: their first message decides for the others.

Celery publishes a group inside a block of ``app.producer_or_acquire``, which is where it is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from celery.utils import uuid

from celery_fair import internals

if TYPE_CHECKING:
    from celery_fair.app import Fair

_Unlock = tuple[str, Callable[[], Any]]


class Canvas:
    """A group while it is being published; one inside another is decided on with it."""

    def __init__(self, producer: AbstractContextManager[Any], group_id: str | None) -> None:
        self._producer = producer
        self._group_id = group_id
        self._outer: Canvas | None = None
        self._unlock: Callable[[], Any] | None = None
        self.is_admitted = False

    @staticmethod
    def current() -> Canvas | None:
        """The innermost group that is being published here."""
        return _current.get()

    def __enter__(self) -> Any:
        self._outer = _current.get()
        producer = self._producer.__enter__()
        _current.set(self)
        waiting = _waiting.get()
        _waiting.set(None)
        if waiting is not None and waiting[0] == self._group_id:
            self._unlock = waiting[1]
        return producer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        # Not by a token: a generator that is thrown away may be closed in another context.
        _current.set(self._outer)
        try:
            if kind is None and not self.is_admitted and self._unlock is not None:
                self.ask(lambda: None)  # it had no message
        finally:
            swallowed = self._producer.__exit__(kind, error, traceback)
        return swallowed

    @property
    def is_decided(self) -> bool:
        """Whether this group, or one around it, has been let in."""
        return self.is_admitted or (self._outer is not None and self._outer.is_decided)

    def ask(self, ask: Callable[[], None]) -> None:
        """Have the first message decide; ``ask`` raises where it is refused."""
        if self.is_admitted:
            return
        if self._outer is not None:
            self._outer.ask(ask)
        else:
            ask()
        self.is_admitted = True
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()


_current: Final[ContextVar[Canvas | None]] = ContextVar("celery_fair_canvas", default=None)
_waiting: Final[ContextVar[_Unlock | None]] = ContextVar("celery_fair_unlock", default=None)


def producer_or_acquire(fair: Fair, acquire: Callable[..., Any], producer: Any = None) -> Any:
    """``app.producer_or_acquire``, which also tells that a group is being published."""
    context = acquire(producer)
    caller = sys._getframe(1)
    if not internals.publishes_group(caller):
        return context
    if not fair.settings.enabled or not fair.admission.limits:
        return context
    return Canvas(context, internals.options_of_group(caller).get("group_id"))


def put_off(group_id: str, options: dict[str, Any], send: Callable[[], Any]) -> bool:
    """Whether the unlocking of a chord is left to its header, which is published next.

    Where the result backend can't count, Celery publishes ``celery.chord_unlock`` first. It would
    poll for ever for a header that was refused.
    """
    canvas = _current.get()
    if canvas is not None and canvas.is_decided:
        return False
    options["task_id"] = options.get("task_id") or uuid()
    _waiting.set((group_id, send))
    return True
