"""``for item in fair.yielding(items)``: a loop that may end after each item, and go on later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from celery_fair.errors import BadOption
from celery_fair.yielding.places import Place
from celery_fair.yielding.run import Run, running

Cursor = Callable[[Any], Any]


class Loop:
    """One loop over ``items``; made by `Fair.yielding`, whose docstring says what they may be."""

    def __init__(self, items: Any, cursor: Cursor | None, state: Callable[[], Any] | None) -> None:
        if cursor is not None and not callable(items):
            raise BadOption(
                "yielding(…, cursor=…)",
                "a function that takes the last cursor, None at first, and returns what follows it",
                type(items),
            )
        self._items = items
        self._cursor = cursor
        self._state = state

    def __iter__(self) -> Iterator[Any]:
        run = running.get()
        if run is None:
            return iter(_after(self._items, None, 0))
        return self._run_through(run.entered())

    def __aiter__(self) -> AsyncIterator[Any]:
        run = running.get()
        if run is None:
            found: AsyncIterator[Any] = aiter(_source(self._items, None))
            return found
        return _Later(_Steps(self, run.entered()), self._items)

    def _run_through(self, run: Run) -> Iterator[Any]:
        steps = _Steps(self, run)
        if steps.place is None:
            return
        try:
            for item in _after(self._items, steps.place.at, steps.done):
                steps.begins()
                yield item
                steps.ends(item)
        finally:
            steps.close()


class _Later:
    """An ``async for``. No generator: that would hear of a ``break`` only some time later."""

    def __init__(self, steps: _Steps, items: Any) -> None:
        self._steps = steps
        self._skip = 0 if callable(items) else steps.done
        if steps.place is not None:
            self._items: AsyncIterator[Any] = aiter(_source(items, steps.place.at))
        self._item: tuple[Any, ...] = ()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        steps = self._steps
        if steps.place is None:
            raise StopAsyncIteration
        try:
            for item in self._item:
                steps.ends(item)
            while self._skip:
                await anext(self._items)
                self._skip -= 1
            item = await anext(self._items)
        except BaseException:
            steps.close()
            raise
        self._item = (item,)
        steps.begins()
        return item

    def __del__(self) -> None:
        self._steps.close()


class _Steps:
    """What happens between two items of one loop, whichever way it waits for them."""

    def __init__(self, loop: Loop, run: Run) -> None:
        self._run = run
        self._places = run.places
        self._cursor: Cursor | None = loop._cursor
        self.place: Place | None = run.places.begin(loop._state)
        at = self.place.at if self.place is not None else None
        self.done = at if type(at) is int and self._cursor is None else 0
        self._length = len(loop._items) if isinstance(loop._items, Sequence) else -1

    def begins(self) -> None:
        assert self.place is not None
        self._places.item_begins(self.place)

    def ends(self, item: Any) -> None:
        """The loop asks for the next item, so that this one is done."""
        run, place = self._run, self.place
        assert place is not None
        self._places.item_ends(place)
        self.done += 1
        place.at = self.done if self._cursor is None else self._cursor(item)
        asked = run.is_asked() and self.done != self._length
        if asked or not run.checked:
            keep_state(run)
            run.check("yielding(…)")
            if asked:
                run.give_way(ends_loop=True)

    def close(self) -> None:
        """The loop has ended, by itself, by a ``break``, or with its task."""
        if self.place is not None:
            self._places.end(self.place)
            self.place = None


def keep_state(run: Run) -> None:
    """Take the state from the loop that gives one."""
    state = run.places.state()
    if state is not None:
        run.state = (state(),)


def _source(items: Any, at: Any) -> Any:
    return items(at) if callable(items) else items


def _after(items: Any, at: Any, done: int) -> Any:
    """Return what of ``items`` is not done yet."""
    if callable(items):
        return items(at)
    if not done:
        return items
    if isinstance(items, Sequence):
        return map(items.__getitem__, range(done, len(items)))
    return islice(items, done, None)
