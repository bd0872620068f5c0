"""What an order comes to in the parts of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from celery_fair.errors import SettingsError
from celery_fair.policy.kinds import Kind
from celery_fair.settings import FairSettings
from celery_fair.steering import Pause

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler


def check(scheduler: Scheduler, settings: FairSettings) -> None:
    """Raise `SettingsError` for what this worker's pool can't keep, as it would at its start."""
    worker = scheduler.c.controller
    slots = max(worker.max_concurrency or 0, worker.concurrency or 0, 1)
    try:
        scheduler.policy_settings(settings).check(slots)
    except ValueError as error:
        raise SettingsError([str(error)]) from None


def reconfigure(scheduler: Scheduler, settings: FairSettings) -> None:
    """Have every part go by other settings, of those that can be set live."""
    scheduler.fair.adopt(settings)
    dispatcher = scheduler.dispatcher
    with dispatcher.lock:
        scheduler.policy.reconfigure(scheduler.policy_settings(settings), monotonic())
        dispatcher.tenants.go_by(settings)
        if scheduler.switching.enforcing:
            dispatcher.time_limits = settings.time_limits
            dispatcher.probing.deadlines.reconfigure(settings.timeouts)
    _log_tasks(scheduler, settings.log_tasks)
    scheduler.measuring.sensor.interval_seconds = settings.sensor_interval_seconds
    dispatcher.grant()
    dispatcher.wake()


def _log_tasks(scheduler: Scheduler, part: float) -> None:
    """Of none, not even a hook is called."""
    log, observers = scheduler.task_log, scheduler.fair.observers
    log.sample(part)
    observers.remove(log)
    if part:
        observers.add(log)


def pause(
    scheduler: Scheduler, kinds: frozenset[Kind], keys: frozenset[str], pauses: Sequence[Pause]
) -> None:
    """Start nothing of these kinds, nor what has come by these routing keys.

    ``pauses`` are the last ones of each kind and queue, for the time that doesn't count as waiting.
    """
    dispatcher = scheduler.dispatcher
    with dispatcher.lock:
        dispatcher.probing.deadlines.pauses = pauses
        dispatcher.pausing.change(dispatcher.lanes, kinds, keys)
        if scheduler.policy.pause(kinds, monotonic()) is not None:
            scheduler.tell_change()
    dispatcher.grant()
    dispatcher.wake()
