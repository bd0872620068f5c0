"""The continuation of a task that has yielded: its own message again, with what it has saved."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from billiard.exceptions import SoftTimeLimitExceeded
from celery.utils.functional import maybe_list

from celery_fair.errors import FairError
from celery_fair.headers import NAME
from celery_fair.publish import running_header
from celery_fair.routing import going_on
from celery_fair.yielding.words import HEADER, encode

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.yielding.run import Run

logger = logging.getLogger(__name__)

#: Names of a request's options in Celery's calls, where its messages have others.
RENAMED: Final = {"link": "callbacks", "link_error": "errbacks"}

#: Options of a message, not of what is in it.
OF_MESSAGE: Final = ("headers", "priority")


def publish(fair: Fair, run: Run, saved: Mapping[str, Any]) -> bool:
    """Publish the continuation of a run that has been left; whether it was.

    Not by ``apply_async``: it is neither a new call (no admission, no parent, no result of its own)
    nor a retry. A soft time limit that comes meanwhile ends the task, as it would have in its work.
    """
    task, request = run.task, run.request
    try:
        _send(fair, task, request, encode(saved, f"the state of {task.name}"))
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:
        logger.warning(
            "celery-fair: %s[%s] could not yield, and goes on in its slot: %s",
            task.name,
            request.id,
            # Others may show what they could not send.
            error if isinstance(error, FairError) else type(error).__name__,
        )
        return False
    logger.debug("celery-fair: %s[%s] yielded; it waits to go on", task.name, request.id)
    return True


def _send(fair: Fair, task: Any, request: Any, state: str) -> None:
    """Put a message like the request's own before what waits in the queue that it came by.

    Without its ``expires``: it has begun in time. RabbitMQ would drop it without a word to anybody.
    """
    app, options = fair.app, request.as_execution_options()
    del options["expires"]
    header = running_header(fair, task, time.time())
    header = header._replace(ready_at=time.time(), yields=header.yields + 1)
    message = app.amqp.create_task_message(
        options.pop("task_id"),
        task.name,
        request.args,
        request.kwargs,
        argsrepr=request.get("argsrepr"),  # a team may have hidden something in them
        kwargsrepr=request.get("kwargsrepr"),
        ignore_result=vars(request).get("ignore_result", task.ignore_result),
        **{RENAMED.get(name, name): _listed(name, value) for name, value in options.items()
           if name not in OF_MESSAGE},
    )  # fmt: skip
    headers = {**(options["headers"] or {}), NAME: header.as_line(), HEADER: state}
    with app.producer_or_acquire() as producer:
        to = going_on(fair, request.delivery_info or {}, {"producer": producer})
        app.amqp.send_task_message(
            producer,
            task.name,
            message,
            headers=headers,
            serializer=task.serializer,
            compression=getattr(task, "compression", None),
            **to,
        )
        _settle(producer, to)


def _settle(producer: Any, to: Mapping[str, Any]) -> None:
    """Wait until RabbitMQ has the message: the task's own is about to be acknowledged elsewhere.

    It answers in order. If nothing takes what was sent, this raises too.
    """
    if producer.connection.transport.driver_type != "amqp":
        return
    if "queue" in to:
        producer.channel.queue_declare(to["queue"].name, passive=True)
    else:
        producer.channel.exchange_declare(to["exchange"], "direct", passive=True)


def _listed(name: str, value: Any) -> Any:
    return maybe_list(value) if name in RENAMED else value
