"""Callbacks of a job: ordinary tasks, published when the store says that they are due."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from celery import signature

from celery_fair.ambient import as_published
from celery_fair.jobs.insisting import insist
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import Progress
from celery_fair.jobs.store import Due, JobStore

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: The callback that may be work of any length, and so takes its turn.
FINISH: Final = "finish"

#: For how long the store is asked again around a callback, in seconds; then a worker sees to it.
PATIENCE_SECONDS: Final = 5.0


def publish(fair: Fair, store: JobStore, plan: Plan, calls: Sequence[Due]) -> None:
    """Publish the callbacks that are due, and tell the store so; raises `StateAway`.

    One that can't be published, which is logged, stays due. One whose publish the store did not
    hear of is published again, under the same id.
    """
    for due in calls:
        progress = insist(partial(store.progress, plan.id), PATIENCE_SECONDS)
        asked = plan.calls.get(due.call)
        try:
            if asked is not None:
                _publish(fair, plan, due, dict(asked), progress)
        except Exception as error:  # of a broker's client, or of what is no signature
            logger.warning(
                "celery-fair: the callback on %s of job %s could not be published (%s: %s); a "
                "worker does it later",
                due.call,
                plan.id,
                type(error).__name__,
                error,
            )
        else:
            insist(partial(store.called, plan.id, due), PATIENCE_SECONDS)


def _publish(fair: Fair, plan: Plan, due: Due, asked: dict[str, Any], progress: Progress) -> None:
    callback = signature(asked, app=fair.app)
    # Of a canvas an id would name one of its tasks, and not the first.
    options = {} if callback.subtask_type else {"task_id": call_id(plan.id, due)}
    with as_published(
        tenant=plan.options.get("tenant"),
        request_id=plan.options.get("request_id"),
        to_front=due.call != FINISH,  # behind the job's own chunks it would be old news
        let_in=True,
    ):
        callback.apply_async((progress.as_dict(),), **options)


def call_id(job: str, due: Due) -> str:
    """Return the id of a callback's task: if it is published twice, that can be told."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{job} {due.call} {due.number}"))
