"""An httpx transport around one or more others, which open and close with it.

It works with httpx and with httpx2, whose clients take any object with these methods, and imports
neither.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    Transport = Any  # both libraries' base class at once, which a type checker can't be told else
else:
    Transport = object


class Wrapper(Transport):
    """Opens all or none, and closes each even where another can't be."""

    _inner: Collection[Any]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for transport in self._inner:
                stack.enter_context(transport)
            stack.pop_all()  # all are open: the client closes them
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        stack = ExitStack()
        for transport in self._inner:
            stack.push(transport)
        stack.__exit__(kind, error, traceback)

    def close(self) -> None:
        """Close all that is inside."""
        with ExitStack() as stack:
            for transport in self._inner:
                stack.callback(transport.close)


class AsyncWrapper(Transport):
    """The same for an ``AsyncClient``."""

    _inner: Collection[Any]

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for transport in self._inner:
                await stack.enter_async_context(transport)
            stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        stack = AsyncExitStack()
        for transport in self._inner:
            stack.push_async_exit(transport)
        await stack.__aexit__(kind, error, traceback)

    async def aclose(self) -> None:
        """Close all that is inside."""
        async with AsyncExitStack() as stack:
            for transport in self._inner:
                stack.push_async_callback(transport.aclose)
