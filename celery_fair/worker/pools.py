"""How each pool tells that a task has left its slot, and how the dispatcher runs beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from celery_fair.worker import internals
from celery_fair.worker.slots import Slot, Slots

Apply = Callable[..., Any]
Callback = Callable[..., Any]
Action = Callable[[], None]


class Pool:
    """Prefork, and any pool we don't know: its completion callbacks free the slot.

    On a hard time limit billiard sets the job's result first, so ``error_callback`` comes then too.
    """

    one_task_a_turn = False
    """Whether the loop must look at the broker between two tasks."""
    has_time_limits = True
    """Whether Celery ends a task here that runs for too long."""
    queues_jobs = False
    """Whether it takes more jobs than it has slots, and tells of each when it begins."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    @property
    def slots(self) -> int:
        """The pool's size now; autoscale and ``pool_grow`` change it."""
        return int(self.pool.num_processes)

    def is_running(self) -> bool:
        return internals.is_running(self.pool)

    def apply(
        self, apply: Apply, slot: Slot, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Call ``pool.apply_async`` so that ``slot`` is given back when the job has ended."""
        follow(options, "callback", slot.end)
        follow(options, "error_callback", slot.fail)
        return apply(*args, **options)

    def on_flushed(self, slots: Slots) -> None:
        """The connection was lost, and with it the jobs that no child has accepted."""
        slots.release_unaccepted()

    def when_freed(self, pump: Action, wake: Action) -> Action:
        """What to call as a slot is given back: ``pump`` in the loop's thread, else ``wake``."""
        return pump


class ThreadPool(Pool):
    """Threads: the future says it, also when a raising ``on_accepted`` leaves no callback."""

    has_time_limits = False
    queues_jobs = True

    def apply(
        self, apply: Apply, slot: Slot, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        follow(options, "callback", slot.note)
        result = apply(*args, **options)
        result.f.add_done_callback(slot.release)
        return result

    def on_flushed(self, slots: Slots) -> None:
        """``flush`` does nothing here: every job given to the executor runs and ends."""

    def when_freed(self, pump: Action, wake: Action) -> Action:
        return wake


class GreenPool(Pool):
    """gevent and eventlet: a slot is free when its greenlet has ended, or was killed unbegun.

    That is told in the greenlet whose place is freed, and ``spawn`` would wait for that very place;
    so dispatching is spawned.
    """

    def follow(self, slot: Slot, options: dict[str, Any]) -> None:
        """Note how the task ends; a hard time limit here is told by ``timeout_callback`` alone.

        Followed whether this task has one or not: the pool may have one for all.
        """
        follow(options, "callback", slot.note)
        follow(options, "timeout_callback", slot.overrun)

    def on_flushed(self, slots: Slots) -> None:
        """``flush`` does nothing here either."""

    def when_freed(self, pump: Action, wake: Action) -> Action:
        return partial(self.pool.spawn_n, pump)


class GeventPool(GreenPool):
    """gevent: the pool returns the greenlet."""

    @property
    def slots(self) -> int:
        return internals.gevent_size(self.pool)

    def apply(
        self, apply: Apply, slot: Slot, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        self.follow(slot, options)
        greenlet = apply(*args, **options)
        greenlet.link(slot.release)
        return greenlet


class EventletPool(GreenPool):
    """eventlet: the pool returns nothing, but it keeps its green threads to kill them."""

    has_time_limits = False

    def apply(
        self, apply: Apply, slot: Slot, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        self.follow(slot, options)
        result = apply(*args, **options)
        internals.newest_green_thread(self.pool).link(slot.release)
        return result


class SoloPool(Pool):
    """Solo: the call itself is the task, so the loop sees the broker only between two of them."""

    one_task_a_turn = True
    has_time_limits = False
    slots = 1
    """Whatever ``--concurrency`` says, which defaults to the number of cores."""

    def apply(
        self, apply: Apply, slot: Slot, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        follow(options, "callback", slot.note)
        try:
            return apply(*args, **options)
        finally:
            slot.release()

    def when_freed(self, pump: Action, wake: Action) -> Action:
        return wake


POOLS: Mapping[str, type[Pool]] = {
    "celery.concurrency.prefork": Pool,
    "celery.concurrency.thread": ThreadPool,
    "celery.concurrency.gevent": GeventPool,
    "celery.concurrency.eventlet": EventletPool,
    "celery.concurrency.solo": SoloPool,
}


def adapt(pool: Any) -> Pool:
    """Return the adapter for a worker's pool, by the module of its class or of a base of it."""
    for base in type(pool).__mro__:
        if base.__module__ in POOLS:
            return POOLS[base.__module__](pool)
    return Pool(pool)


def follow(options: dict[str, Any], name: str, after: Callback) -> None:
    """Have ``after`` called behind the callback of that name, with the same arguments."""
    callback = options.get(name)
    options[name] = partial(_then, after, callback) if callback else after


def _then(after: Callback, callback: Callback, *args: Any, **kwargs: Any) -> Any:
    try:
        return callback(*args, **kwargs)
    finally:
        after(*args)
