"""Makes the `Clearing` of one worker, where anything has to be cleared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

from celery_fair.errors import SettingsError
from celery_fair.worker.clearing.clearing import Clearing
from celery_fair.worker.clearing.hooking import Hooking
from celery_fair.worker.clearing.moving import Moving
from celery_fair.worker.clearing.questions import Questions

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler


def clearing_of(scheduler: Scheduler) -> Clearing | None:
    """Return what clears the tasks of a worker; None where nothing is shared, and nobody asked.

    Raises `SettingsError` for what tasks use and nobody has defined, where there is no Redis for
    what is, and for a hook that can't be found.
    """
    resources = scheduler.fair.resources
    resources.check()
    hooking = _hooking_of(scheduler)
    if not resources.is_set:
        return None if hooking is None else Clearing(scheduler.dispatcher, hooking=hooking)
    from celery_fair.worker.clearing.sharing import keeper_of  # nobody else pays for it

    keeper = keeper_of(scheduler)
    return Clearing(scheduler.dispatcher, uses=resources.uses_of, keeper=keeper, hooking=hooking)


def _hooking_of(scheduler: Scheduler) -> Hooking | None:
    settings, dispatcher = scheduler.settings, scheduler.dispatcher
    if settings.before_batch is None:
        return None
    questions = Questions(_hook(settings.before_batch), settings.before_batch_seconds)
    moving = Moving(scheduler.fair)
    questions.wake = moving.wake = lambda: dispatcher.wake()
    return Hooking(
        questions,
        moving,
        settings.before_batch_on_error,
        dispatcher.timing_out.refuse,
        lambda: scheduler.settings.hold_max_seconds,
        lambda queue: queue in scheduler.fair.app.amqp.queues.consume_from,
    )


def _hook(said: Any) -> Callable[[Any], Any]:
    """Return the function that a setting names."""
    found, why = said, "it can't be called"
    if isinstance(said, str):
        try:
            found = symbol_by_name(said)
        except Exception as error:  # whatever the module does as it is imported
            why = f"{type(error).__name__}: {error}"
    if callable(found):
        return found
    raise SettingsError([f"before_batch: expected the name of a function, got {said!r}: {why}"])
