"""Observe mode: Celery's own order, while every decision is computed and counted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from time import monotonic
from typing import Any

from celery_fair.headers import FairHeader
from celery_fair.observe.endings import DUPLICATE
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.worker import internals, telling
from celery_fair.worker.dispatcher import Dispatcher


class ObservingDispatcher(Dispatcher):
    """Passes each request on at once, and counts what the policy would have done with it."""

    def on_task_request(self, request: Any) -> None:
        """Note whether it would have waited here, and hand it over."""
        kind, copy = self._kind_and_copy(request)
        self._take_note_of_finished()
        if copy is not None:
            self.copies.mark(request, copy)
            if not self.copies.may_run(request):
                self.copies.drop(request)
                self.counting.counts.dropped[kind][DUPLICATE] += 1
                return
        is_batch = kind == BATCH
        if self.policy.pick(int(not is_batch), int(is_batch), monotonic()) != kind:
            self.would_have_held[kind] += 1
        self._process_task(request)

    def apply_async(self, apply: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Count the slot from here, which is where the pool takes the task."""
        request = internals.request_of(options.get("callback"))
        if not hasattr(request, "_message"):
            return apply(*args, **options)
        (kind, _), now, epoch = self._kind_and_copy(request), monotonic(), time.time()
        _, ready_at, _ = self.arrivals.stamps(internals.message_of(request).headers, epoch)
        known = None if ready_at == epoch else ready_at  # it says nothing of when it was published
        slot = self.slots.take(kind, request, now, now, known, self.policy.mode)
        self.counting.started.append(slot)
        self._take_note_of_finished()
        self.policy.start(kind, now)
        self.dispatched[kind] += 1
        if "dispatched" in self.observers.hooks:
            self.observers.tell("dispatched", telling.of_slot(slot, finished=False))
        return self.pool.apply(apply, slot, args, options)

    def pump(self) -> None:
        """Nothing is held here; a slot that was given back only has to be noted."""
        self._take_note_of_finished()

    def grant(self) -> None:
        """Celery's own prefetch count rules."""

    def give_back_overdue(self, hold_seconds: float, longest_seconds: float = math.inf) -> None:
        """Nothing is held here."""

    def _kind_and_copy(self, request: Any) -> tuple[Kind, str | None]:
        header = FairHeader.read(internals.message_of(request).headers)
        if header is not None:
            return header.kind, header.once
        queue = request.delivery_info.get("routing_key") or ""
        kind = self.kind_of_queue(queue)
        return BATCH if kind == BATCH else INTERACTIVE, None
