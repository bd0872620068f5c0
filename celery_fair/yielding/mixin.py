"""What a `Fair` has for tasks that yield."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_fair.yielding.loops import Loop
from celery_fair.yielding.run import running


class YieldingMixin:
    """Of the task that the calling code runs in, whichever app's it is."""

    @staticmethod
    def should_yield() -> bool:
        """Whether the task that this code runs in should save where it is, and give its slot back.

        Costs less than a microsecond. False outside of a worker, and in a task that is called
        directly. A task yields by `checkpoint`; one that has other means may just return.
        """
        run = running.get()
        return run is not None and run.is_asked()

    @staticmethod
    def checkpoint(state: Any) -> None:
        """Go on; or, if the task should yield, leave it here, to be started again with ``state``.

        ``state`` is JSON of at most 32 kB; the next run has it from `saved`. Raises `BadState` for
        the first one of a run that is none.
        """
        run = running.get()
        if run is None:
            return
        asked = run.is_asked()
        run.state = (state,)
        if asked or not run.checked:
            run.check("checkpoint(state)")
            if asked:
                run.give_way()

    @staticmethod
    def saved(default: Any = None) -> Any:
        """Return the state that was last given to `checkpoint`, mostly by an earlier run."""
        run = running.get()
        # The items of a job's chunk are one run, and have nothing of each other.
        state = None if run is None or run.entered().in_chunk else run.state
        return default if state is None else state[0]

    @staticmethod
    def yielding(
        items: Any,
        *,
        cursor: Callable[[Any], Any] | None = None,
        state: Callable[[], Any] | None = None,
    ) -> Any:
        """Loop over ``items`` (``for`` or ``async for``), and yield between two if it is asked for.

        The next run goes on behind the last item whose body has ended. ``items`` is made anew by
        each run: a sequence is indexed, anything else is skipped through. With ``cursor`` it is a
        function of the last item's cursor, None at first, that returns what follows it. ``state``
        is called as the task yields; the next run has its value from `saved`.
        """
        return Loop(items, cursor, state)
