"""How a chunk works off its items: one by one, or as lists that are halved when they fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from billiard.exceptions import SoftTimeLimitExceeded
from celery.exceptions import Ignore, Retry, WorkerShutdown, WorkerTerminate

from celery_fair.errors import BadOption, RateLimited
from celery_fair.internals import is_told_to_end
from celery_fair.jobs.items import decode
from celery_fair.jobs.tally import NO_RESULT

if TYPE_CHECKING:
    from celery_fair.jobs.running import Chunk

#: A signal that the worker ends may arrive while its own thread runs an item; nothing else that
#: calls for the end of the process is allowed to an item.
OF_WORKER: Final = (WorkerShutdown, WorkerTerminate, KeyboardInterrupt)


class Ended(Exception):  # noqa: N818 - no error
    """A chunk ends before its items do."""


def one_by_one(chunk: Chunk) -> None:
    """Call the function with each item."""
    claim = chunk.claim
    for place, (index, text) in enumerate(zip(claim.indices, claim.items, strict=True)):
        if place:
            chunk.between()
        with _timed(chunk):
            _run(chunk, [index], [text], _of_item(chunk), is_first=not place)


def in_lists(chunk: Chunk) -> None:
    """Call the function with all items; then with each half of a list that has failed, and so on.

    The halves come in order, as the items are counted in theirs.
    """
    claim = chunk.claim
    todo = [(0, len(claim.items))]
    while todo:
        start, end = todo.pop()
        if start or end < len(claim.items):
            chunk.between()
        part = slice(start, end)
        with _timed(chunk):
            whole = _run(
                chunk, claim.indices[part], claim.items[part], chunk.call, is_first=not start
            )
        if not whole:
            middle = (start + end) // 2
            todo += [(middle, end), (start, middle)]


WAYS: Final[Mapping[str, Callable[[Chunk], None]]] = {"item": one_by_one, "chunk": in_lists}


def _of_item(chunk: Chunk) -> Callable[[list[Any]], Any]:
    return lambda items: [chunk.call(*items)]


def _run(
    chunk: Chunk,
    indices: Sequence[int],
    texts: Sequence[str],
    call: Callable[[list[Any]], Any],
    *,
    is_first: bool,
) -> bool:
    """Call the function and count what it was given; False if it is to be halved.

    A soft time limit is the chunk's: it fails what it has met first, an item or a list that can't
    be made shorter, and leaves any other to the next chunk. So does a resource that refuses: the
    next chunk waits until it serves batch again.
    """
    alone = len(indices) == 1
    try:
        values = call([decode(text) for text in texts])
    except SoftTimeLimitExceeded as error:
        _fail_first(chunk, indices, error, is_first=is_first)
        raise
    except Ignore:
        values = [NO_RESULT] * len(indices)
    except _of_worker():
        raise
    except BaseException as error:  # asyncio's CancelledError, gevent's Timeout: else for ever
        cause = _cause(error)
        if isinstance(cause, RateLimited):
            _fail_first(chunk, indices, cause, is_first=is_first)
            chunk.end_refused(cause)
        if alone:
            chunk.failed(indices[0], cause)
        return alone
    _count(chunk, indices, values)
    return True


def _fail_first(
    chunk: Chunk, indices: Sequence[int], error: BaseException, *, is_first: bool
) -> None:
    """Fail what would only meet the same again as the first of the next chunk."""
    if is_first and (len(indices) == 1 or chunk.claim.plan.chunk_items is not None):
        for index in indices:
            chunk.failed(index, error)


def _of_worker() -> tuple[type[BaseException], ...]:
    """Return what is not of an item's doing; a green pool kills what it runs by another.

    Of a process that is told to end it is whatever the signal has become on its way through it.
    """
    if is_told_to_end():
        return (BaseException,)
    greenlet = sys.modules.get("greenlet")
    return OF_WORKER if greenlet is None else (*OF_WORKER, greenlet.GreenletExit)


def _cause(error: BaseException) -> BaseException:
    """Return what an item has failed with, if that was to be a reason to retry it."""
    inner = error.exc if isinstance(error, Retry) else None
    return inner if isinstance(inner, BaseException) else error


def _count(chunk: Chunk, indices: Sequence[int], values: Any) -> None:
    if not chunk.claim.plan.results:  # then it may return what it likes
        values = [NO_RESULT] * len(indices)
    if not isinstance(values, (list, tuple)) or len(values) != len(indices):
        got = f"{len(values)} of them" if isinstance(values, (list, tuple)) else type(values)
        error = BadOption("results of a chunk", f"a list of {len(indices)}", got)
        for index in indices:
            chunk.failed(index, error)
        return
    for index, value in zip(indices, values, strict=True):
        chunk.succeeded(index, value)


@contextmanager
def _timed(chunk: Chunk) -> Iterator[None]:
    begun = monotonic()
    try:
        yield
    finally:
        chunk.tally.add_seconds(monotonic() - begun)
