"""Tickets: the messages that run chunks, each no more than a job's id and its own.

Which tickets there may be, the store says; publishing one again is harmless, since one that it does
not count on ends as soon as it runs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from celery.app.task import extract_exec_options
from celery.utils import uuid

from celery_fair.ambient import as_published
from celery_fair.errors import QueueFull
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.store import JobStore
from celery_fair.jobs.task import HEADER, TICKET

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: Whose work it is: said around the publish, since it is already what is to travel.
WHOSE: Final = ("tenant", "request_id")


def grant(store: JobStore, plan: Plan) -> Sequence[str]:
    """Return new tickets of a job, as many as there is work and room for: publish them."""
    return store.grant(plan.id, [uuid() for _ in range(plan.backlog)])


def publish(
    fair: Fair,
    plan: Plan,
    tickets: Sequence[str],
    *,
    to_front: bool = False,
    again: bool = False,
    let_in: bool = True,
) -> Sequence[str]:
    """Publish tickets; return those that could not be, which is logged.

    Somebody publishes them later: the store counts on them, and says so to the workers. ``again``
    gives the message another id than the ticket's: workers drop what bears one that was revoked.
    A job is let in whole; without ``let_in`` its chunks ask, one by one.
    """
    for done, ticket in enumerate(tickets):
        try:
            _publish(fair, plan, _options(plan, ticket, again), to_front, let_in)
        except QueueFull as full:
            logger.info("celery-fair: chunks of job %s wait to be published: %s", plan.id, full)
            return tickets[done:]
        except Exception as error:  # a broker's client raises anything
            logger.warning(
                "celery-fair: chunks of job %s could not be published (%s: %s); a worker does it "
                "later",
                plan.id,
                type(error).__name__,
                error,
            )
            return tickets[done:]
    return ()


def _publish(fair: Fair, plan: Plan, options: dict[str, Any], to_front: bool, let_in: bool) -> None:
    task = fair.registered(plan.task)
    with as_published(
        tenant=plan.options.get("tenant"),
        request_id=plan.options.get("request_id"),
        to_front=to_front,
        let_in=let_in,
    ):
        if task is None:  # known elsewhere
            fair.app.send_task(plan.task, (), {}, **options)
        elif fair.app.conf.task_always_eager:
            fair.jobs.eager.append((task, options))
        else:
            # Not ``apply_async``: it would miss the arguments of the function.
            declared = extract_exec_options(task)
            declared.pop("expires", None)  # as with timeouts: in a long queue it would never run
            fair.app.send_task(plan.task, (), {}, task_type=task, **{**declared, **options})


def _options(plan: Plan, ticket: str, again: bool) -> dict[str, Any]:
    asked = {name: value for name, value in plan.options.items() if name not in WHOSE}
    headers: Mapping[str, Any] = asked.pop("headers", None) or {}
    return {
        **asked,
        "task_id": uuid() if again else ticket,
        "headers": {**headers, HEADER: plan.id, **({TICKET: ticket} if again else {})},
        "ignore_result": True,
        "timeout_seconds": math.inf,  # it is the items that may be late, and not a chunk of them
    }
