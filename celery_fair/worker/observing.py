"""Observe mode: Celery's own order, while every decision is computed and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery_fair.headers import FairHeader
from celery_fair.observe.endings import DUPLICATE
from celery_fair.observe.finished import PAGE
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.worker import internals, telling
from celery_fair.worker.pools import follow
from celery_fair.worker.slots import Slot

if TYPE_CHECKING:
    from celery_fair.worker.dispatcher import Dispatcher
    from celery_fair.worker.scheduler import Scheduler

NOT_REPLAYED = frozenset({
    "resources", "interactive_max_running", "batch_max_running", "tenant_weights",
    "tenant_max_running", "before_batch", "load_probe", "interactive_timeout_seconds",
    "batch_timeout_seconds", "interactive_time_limit", "batch_time_limit",
})  # fmt: skip
"""Settings that change who gets a slot when, and of which a replay takes no account."""


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
        kind, copy = kind_and_copy(request, dispatcher.kind_of_queue)
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


def slot_of_passed_on(dispatcher: Dispatcher, request: Any, options: dict[str, Any]) -> Slot:
    """Take a slot for what came by Celery's own way, as the pool gets it.

    For the policy it counts from here, since nothing that comes later can overtake it. It has begun
    when the pool begins it, and has waited until then.
    """
    (kind, _), now = kind_and_copy(request, dispatcher.kind_of_queue), monotonic()
    epoch = time.time()
    headers = internals.message_of(request).headers
    ready_at = dispatcher.arrivals.stamps(headers, epoch).ready_at
    known = None if ready_at == epoch else ready_at  # it says nothing of when it was published
    slot = dispatcher.slots.take(kind, request, now, now, known, dispatcher.policy.mode)
    if dispatcher.pool.queues_jobs:
        dispatcher.parked.add(slot)
        follow(options, "accept_callback", partial(_begin, dispatcher, slot))
    else:
        dispatcher.counting.started.append(slot)
    dispatcher.note_finished()
    dispatcher.policy.start(kind, now)
    dispatcher.dispatched[kind] += 1
    if "dispatched" in dispatcher.observers.hooks:
        dispatcher.observers.tell("dispatched", telling.of_slot(slot, finished=False))
    return slot


def _begin(dispatcher: Dispatcher, slot: Slot, *_: Any) -> None:
    """The pool begins a job that has waited in it; called in the thread that runs it."""
    slot.started_at = monotonic()
    dispatcher.counting.started.append(slot)
    dispatcher.parked.discard(slot)


def kind_and_copy(request: Any, kind_of_queue: Callable[[str], Kind]) -> tuple[Kind, str | None]:
    """What a request's header says, else the kind of the queue that it came by."""
    header = FairHeader.read(internals.message_of(request).headers)
    if header is not None:
        return header.kind, header.once
    return kind_of_queue(request.delivery_info.get("routing_key") or ""), None


def observed(
    scheduler: Scheduler, before: int | None = None, most: int | None = None
) -> dict[str, Any]:
    """What a replay needs of this worker: its tasks, a page of them, and by what rules it runs.

    An ``error`` instead while the worker enforces: then there is nothing to replay.
    """
    found = scheduler.observed
    if found is None:
        return {"error": "it enforces: only what Celery's own order has made is replayed"}
    settings, c = scheduler.settings, scheduler.c
    order = (c.app.conf.broker_transport_options or {}).get("queue_order_strategy")
    return {
        **found.page(before, PAGE if most is None else most),
        "slots": scheduler.policy.slots,
        "prefetch": c.prefetch_multiplier,
        "policy": asdict(scheduler.policy_settings(settings)),
        "pushes": c.connection.transport.driver_type == "amqp",
        "in_turn": order in (None, "round_robin"),
        "kinds": [kind for kind in KINDS if scheduler.backlog.queue_names(kind)],
        "sensor_seconds": settings.sensor_interval_seconds,
        "hold_max_seconds": settings.hold_max_seconds,
        "left_out": sorted(NOT_REPLAYED & set(settings.shown())),
    }
