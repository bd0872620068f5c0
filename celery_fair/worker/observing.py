"""Observe mode: Celery's own order, while every decision is computed and counted."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from celery_fair.observe.endings import DUPLICATE
from celery_fair.policy.kinds import BATCH

if TYPE_CHECKING:
    from celery_fair.worker.dispatcher import Dispatcher


class Observing:
    """Passes each request on at once, and counts what the policy would have done with it.

    The slots, counts and copies are the dispatcher's, so that a worker may change between the two
    while tasks run.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def on_task_request(self, request: Any) -> None:
        """Note whether it would have waited here, and hand it over."""
        dispatcher = self._dispatcher
        kind, copy = dispatcher.kind_and_copy(request)
        dispatcher.note_finished()
        if copy is not None:
            dispatcher.copies.mark(request, copy)
            if not dispatcher.copies.may_run(request):
                dispatcher.copies.drop(request)
                dispatcher.counting.counts.dropped[kind][DUPLICATE] += 1
                return
        is_batch = kind == BATCH
        if dispatcher.policy.pick(int(not is_batch), int(is_batch), monotonic()) != kind:
            dispatcher.would_have_held[kind] += 1
        dispatcher.pass_on(request)
