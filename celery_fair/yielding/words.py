"""What ends a run that yields, and what its continuation starts with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from celery.exceptions import Ignore
from kombu.utils.json import dumps, loads

from celery_fair.errors import BadState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from celery_fair.yielding.run import Run

HEADER: Final = "fair_state"
"""The message header with what a continuation starts with."""

LIMIT: Final = 32_768
"""Bytes of it: a header is read with every message, and RabbitMQ's must fit in one frame."""


class Yielding(BaseException):
    """Raised out of a task that gives way, up to where Celery called it.

    No ``Exception``: a task's own ``except Exception:`` is about its work, and must not end this.
    """

    def __init__(self, run: Run, saved: Mapping[str, Any]) -> None:
        self.run = run
        self.saved = saved
        super().__init__()


def ungrouped(error: BaseException) -> BaseException:
    """Return what a group is about, as ``asyncio.TaskGroup`` raises one for whatever is in it.

    That is the `Yielding` in it, or what has failed beside one. Celery would end the child by it.
    """
    if not isinstance(getattr(error, "exceptions", None), tuple) or not hasattr(error, "split"):
        return error
    found, rest = error.split(Yielding)
    if found is None:
        return error
    if rest is not None:
        return rest
    while not isinstance(found, Yielding):
        found = found.exceptions[-1]
    return found


def is_news(record: logging.LogRecord) -> bool:
    """A filter for Celery's tracer, which logs at INFO that a task that yields was ignored.

    It was not, and it has said so itself, at DEBUG.
    """
    args = record.args
    return not (isinstance(args, dict) and args.get("exc") == GAVE_WAY)


class GaveWay(Ignore):
    """How Celery is told: it stores nothing, calls nobody back and acknowledges the message."""


def encode(saved: Mapping[str, Any], what: str) -> str:
    """Return it as it travels; raises `BadState` for what is no JSON, or too long.

    The error tells types and sizes, never what is in it.
    """
    try:
        text: str = dumps(saved)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadState(what, f"what JSON can't hold ({type(error).__name__})") from None
    size = len(text.encode())
    if size > LIMIT:
        raise BadState(what, f"{size} bytes")
    return text


def decode(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a message says of its state: nothing, if it is none of ours; never raises."""
    try:
        text = headers[HEADER] if headers else None
        found = loads(text) if isinstance(text, str) and len(text) <= LIMIT else {}
    except Exception:  # anyone who can publish can write anything here
        return {}
    return found if type(found) is dict else {}


GAVE_WAY: Final = repr(GaveWay())
