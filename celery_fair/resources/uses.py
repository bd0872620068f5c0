"""What a task uses of what workers share, and how many tokens it is thought to use."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery.exceptions import SoftTimeLimitExceeded

from celery_fair.errors import SettingsError, did_you_mean
from celery_fair.globs import MAX_NAMES, Globs
from celery_fair.headers import FairHeader
from celery_fair.options import own_option
from celery_fair.policy.kinds import Kind
from celery_fair.resources.declaring import known_tokens, known_uses
from celery_fair.resources.rules import OF_KIND, Rules, of_kind

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

SLOW_SECONDS: Final = 1.0
"""An estimate that takes longer is told of: each publish takes as long."""

_spared = threading.local()


def spare_this_thread() -> None:
    """Run nobody's estimate in this thread, outside of a task: many tasks wait for what it does."""
    _spared.process = os.getpid()  # a child that is forked here is another one


def is_spared() -> bool:
    """Whether `spare_this_thread` was called, in this thread of this process."""
    return getattr(_spared, "process", None) == os.getpid()


NONE_UNTIL: Final = "such calls count as none until they are charged"


class Uses(NamedTuple):
    """What one task has to have before it runs."""

    names: tuple[str, ...]
    """Of resources, sorted, none twice; never empty."""
    tokens: int


def declared_uses(task: Any) -> tuple[str, ...] | None:
    """Return what a task says that it uses, by ``fair_uses`` or its decorator's ``uses=``."""
    said = getattr(task, "fair_uses", None)
    said = own_option(task, "uses") if said is None else said
    return None if said is None else known_uses(said, f"uses of {task.name}")


def declared_tokens(task: Any) -> Any:
    """Return what a task says of its tokens, a number or a function of its arguments, or None."""
    said = getattr(task, "fair_tokens", None)
    return own_option(task, "tokens") if said is None else said


class Using:
    """What the tasks of one app use; each answer is kept, as every message asks."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._globs = Globs(fair.settings.uses)
        self._known: dict[tuple[Kind, str], Uses | None] = {}
        self._warned: set[str] = set()

    def of(self, kind: Kind, name: str, header: FairHeader | None, rules: Rules) -> Uses | None:
        """Return what a message's task uses, in its lane of ``kind``; None for nothing."""
        key = kind, name
        try:
            found = self._known[key]
        except KeyError:
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            found = self._known[key] = self._find(kind, name, rules)
        if found is None or header is None or not header.tokens:
            return found
        return Uses(found.names, header.tokens)

    def _find(self, kind: Kind, name: str, rules: Rules) -> Uses | None:
        task = self._fair.registered(name)
        names = self.names_of(name, task)
        limit = of_kind(kind)
        if limit in rules:
            names = tuple(sorted({*names, limit}))
        tokens = declared_tokens(task)
        return Uses(names, tokens if type(tokens) is int else 0) if names else None

    def names_of(self, name: str, task: Any) -> tuple[str, ...]:
        """Return the resources that a task uses: what it says, else what the globs say."""
        own = declared_uses(task) if task is not None else None
        return own if own is not None else self._globs.find(name) or ()

    def estimate(self, name: str, task: Any, args: Any, kwargs: Any) -> int:
        """Return the tokens that a call is thought to use; 0 where nobody knows.

        A function runs in the thread that publishes, whose locals and connections it may need: so
        nothing can end it there but the task's own time limit, or a web server's. Where it would
        hold up a worker, it isn't asked. One that fails fails no publish: the call is charged with
        what it says as it runs.
        """
        task = task if task is not None else self._fair.registered(name)
        said = declared_tokens(task)
        if said is None:
            return 0
        if not callable(said):
            return known_tokens(said, f"tokens of {name}")
        if is_spared() and self._fair.app.current_worker_task is None:
            self._say_once(name, "aren't estimated in a worker's own threads", NONE_UNTIL)
            return 0
        began = monotonic()
        try:
            return known_tokens(said(*(args or ()), **(kwargs or {})), f"tokens of {name}")
        except SoftTimeLimitExceeded:  # of the task that publishes
            raise
        except Exception as error:
            self._say_once(
                name, f"can't be estimated ({type(error).__name__}: {error})", NONE_UNTIL
            )
            return 0
        finally:
            if (took := monotonic() - began) > SLOW_SECONDS:
                self._say_once(
                    name, f"took {took:.1f} s to estimate", "each publish waits for that"
                )

    def _say_once(self, name: str, what: str, so: str) -> None:
        """Tell the first trouble with a task's estimates, and no other."""
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("celery-fair: the tokens of %s %s: %s", name, what, so)

    def check(self, tasks: Mapping[str, Any], rules: Rules) -> None:
        """Raise `SettingsError` with each name of a resource that there is not."""
        problems = [
            f"{where}: there is no resource {name!r}{_hint(name, rules)}"
            for where, names in self._said(tasks)
            for name in names
            if name not in rules or name.startswith(OF_KIND)
        ]
        if problems:
            raise SettingsError(problems)

    def _said(self, tasks: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for glob, names in self._fair.settings.uses.items():
            yield f"app.conf.fair['uses'][{glob!r}]", names
        for name, task in sorted(tasks.items()):
            declared = declared_uses(task)
            if declared is not None:
                yield f"uses of {name}", declared


def _hint(name: str, rules: Rules) -> str:
    known = [one for one in rules if not one.startswith(OF_KIND)]
    hint = did_you_mean(name, known)
    there = f"; there are {', '.join(sorted(known))}" if known else "; `resources` names none"
    return hint or there
