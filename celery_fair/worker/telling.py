"""What observers are told of a task, made from what the worker knows of it."""

from __future__ import annotations

import time
from time import monotonic
from typing import Any

from celery_fair.headers import FairHeader
from celery_fair.observer import TaskInfo
from celery_fair.policy.kinds import Kind
from celery_fair.worker import internals
from celery_fair.worker.lanes import Held
from celery_fair.worker.slots import Slot


def of_held(kind: Kind, held: Held, outcome: str | None = None) -> TaskInfo:
    """A task that waits here, or has ended without a slot."""
    to_epoch = time.time() - monotonic()
    return _info(kind, held.request, held.ready_at, held.received_at + to_epoch, outcome=outcome)


def of_slot(slot: Slot, *, finished: bool) -> TaskInfo:
    """A task that has a slot, or had it."""
    to_epoch = time.time() - monotonic()
    return _info(
        slot.kind,
        slot.request,
        slot.ready_at,
        slot.received_at + to_epoch,
        started_at=slot.started_at + to_epoch,
        finished_at=slot.finished_at + to_epoch if finished else None,
        mode=slot.mode.value,
        outcome=slot.outcome,
    )


def of_request(kind: Kind, request: Any) -> TaskInfo:
    """A task that Celery has, and that waits for something other than a slot."""
    header = FairHeader.read(internals.message_of(request).headers)
    return _info(kind, request, header.ready_at if header is not None else None, None)


def _info(
    kind: Kind, request: Any, ready_at: float | None, pulled_at: float | None, **more: Any
) -> TaskInfo:
    return TaskInfo(
        kind=kind,
        # Not `request.name`, which is a `shadow` of the publisher's choice.
        name=request.task.name,
        id=request.id,
        queue=internals.queue_of(request),
        enqueued_at=ready_at,
        pulled_at=pulled_at,
        **more,
    )
