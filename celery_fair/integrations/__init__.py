"""Web frameworks: what a request publishes inherits the request's kind, its tenant and its id.

The decorators say a view's kind in any framework, sync or async; `RequestRules` has what else can
say it, and what is stronger. `docs/web.md` explains it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from celery_fair import BATCH, INTERACTIVE, KINDS, Kind, UnknownKind, inherit_kind
from celery_fair.integrations.rules import DEFAULT_HEADER, RequestRules, decided

__all__ = ("DEFAULT_HEADER", "RequestRules", "batch_view", "interactive_view", "kind_view")

View = Callable[..., Any]


def kind_view(kind: Kind) -> Callable[[View], View]:
    """Let what a view publishes inherit ``kind``; tasks that declare a kind keep theirs.

    Put it under the framework's own decorators. Raises `UnknownKind`.
    """
    if kind not in KINDS:
        raise UnknownKind(kind, KINDS, "kind_view(…)")

    def scope() -> AbstractContextManager[None]:
        return nullcontext() if decided.get() else inherit_kind(kind)

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
                answer = view(*args, **kwargs)
            # The `dispatch` of Django's class-based views is sync, and what it returns may not be.
            return _awaited(answer, scope) if inspect.iscoroutine(answer) else answer

        return serve

    return decorate


async def _awaited(
    answer: Coroutine[Any, Any, Any], scope: Callable[[], AbstractContextManager[None]]
) -> Any:
    with scope():
        return await answer


interactive_view = kind_view(INTERACTIVE)
batch_view = kind_view(BATCH)
