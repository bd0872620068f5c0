"""RabbitMQ's queues that somebody else has declared, with other arguments than this app would."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

logger = logging.getLogger(__name__)

PRECONDITION_FAILED = 406
MOST_DIFFERENCES = 16

DIFFERENCE = re.compile(r"inequivalent arg '([^']+)' for queue .*but current is (.+)$", re.DOTALL)
VALUE = re.compile(r"the value '(.*)' of type '(\w+)'")
FLAGS = ("durable", "auto_delete", "exclusive")
ATTRIBUTES = {
    "x-expires": "expires",
    "x-message-ttl": "message_ttl",
    "x-max-length": "max_length",
    "x-max-length-bytes": "max_length_bytes",
    "x-max-priority": "max_priority",
}
"""Arguments that a ``kombu.Queue`` also has as attributes of its own."""


def _ignore(error: Exception) -> None:
    """Celery will meet it again, and say so."""


def adopt(
    connection: Any,
    queues: Iterable[Any],
    on_refused: Callable[[Exception], None] = _ignore,
) -> None:
    """Make these ``kombu.Queue`` equal to those of the broker, which a worker then takes as it is.

    A declaration that differs is refused with 406, which would end the worker. On a channel of its
    own nothing is lost with it. The refusal names one difference at a time, and the windows want to
    know of each: a quorum queue, or one that expires, is not pulled from like others.
    """
    if connection.transport.driver_type != "amqp":
        return
    channel = connection.channel()
    try:
        for queue in queues:
            if not queue.no_declare:
                _adopt(connection, channel, queue, on_refused)
    finally:
        channel.close()


def _adopt(
    connection: Any, channel: Any, queue: Any, on_refused: Callable[[Exception], None]
) -> None:
    differences: dict[str, str] = {}
    while True:
        try:
            queue(channel).queue_declare()
        except connection.channel_errors as error:
            if getattr(error, "reply_code", None) != PRECONDITION_FAILED:
                on_refused(error)
                return
            found = DIFFERENCE.search(error.reply_text)
            if found is None or found[1] in differences or len(differences) == MOST_DIFFERENCES:
                queue.no_declare = True
                _warn(queue, {"not understood": error.reply_text})
                return
            differences[found[1]] = found[2]
            _take_over(queue, found[1], found[2])
        else:
            break
    if differences:
        _warn(queue, differences)


def _take_over(queue: Any, name: str, said: str) -> None:
    if name in FLAGS:
        setattr(queue, name, said == "'true'")
        return
    if name in ATTRIBUTES:
        setattr(queue, ATTRIBUTES[name], None)
    arguments = dict(queue.queue_arguments or {})
    arguments.pop(name, None)
    value = VALUE.fullmatch(said)
    if value is not None:  # else "none"
        arguments[name] = _typed(value[1], value[2])
    queue.queue_arguments = arguments


def _typed(text: str, kind: str) -> Any:
    if kind == "bool":
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _warn(queue: Any, differences: dict[str, str]) -> None:
    logger.warning(
        "celery-fair: the queue %s was declared elsewhere with other arguments (%s); this worker "
        "takes it as it is. Declare it so in task_queues, or publishers are refused with 406",
        queue.name,
        ", ".join(f"{name}: {_value(said)}" for name, said in differences.items()),
    )


def _value(said: str) -> str:
    value = VALUE.fullmatch(said)
    return said if value is None else value[1]
