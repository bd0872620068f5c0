"""Web frameworks: what a request publishes inherits the request's kind.

A view says its kind by a decorator, sync or async, in any framework; a gateway says it by a header,
where the integration was told to trust it. The header wins: it is about this one request.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final

from celery_fair import BATCH, INTERACTIVE, KINDS, Kind, UnknownKind, inherit_kind

__all__ = ("DEFAULT_HEADER", "batch_view", "interactive_view", "kind_view", "request_kind")

#: The request header that is looked at where a header is trusted.
DEFAULT_HEADER: Final = "X-Fair-Kind"

_told_by_header: ContextVar[bool] = ContextVar("celery_fair_told_by_header", default=False)

View = Callable[..., Any]


def kind_view(kind: Kind) -> Callable[[View], View]:
    """Let what a view publishes inherit ``kind``; tasks that declare a kind keep theirs.

    Put it under the framework's own decorators. Raises `UnknownKind`.
    """
    if kind not in KINDS:
        raise UnknownKind(kind, KINDS, "kind_view(…)")

    def scope() -> AbstractContextManager[None]:
        return nullcontext() if _told_by_header.get() else inherit_kind(kind)

    def decorate(view: View) -> View:
        # Django marks class-based async views before Python 3.12 by an attribute.
        if inspect.iscoroutinefunction(view) or hasattr(view, "_is_coroutine"):

            @functools.wraps(view)
            async def serve_async(*args: Any, **kwargs: Any) -> Any:
                with scope():
                    return await view(*args, **kwargs)

            return serve_async

        @functools.wraps(view)
        def serve(*args: Any, **kwargs: Any) -> Any:
            with scope():
                return view(*args, **kwargs)

        return serve

    return decorate


interactive_view = kind_view(INTERACTIVE)
batch_view = kind_view(BATCH)


@contextmanager
def request_kind(told: str | None) -> Iterator[None]:
    """Serve a request whose trusted header says ``told``; what isn't a kind says nothing."""
    kind = next((kind for kind in KINDS if kind == (told or "").strip().lower()), None)
    if kind is None:
        yield
        return
    token = _told_by_header.set(True)
    try:
        with inherit_kind(kind):
            yield
    finally:
        _told_by_header.reset(token)
