"""What tasks and calls say by options of ours, and what is refused of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celery_fair.errors import BadOption, UnknownKind
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind

#: Options of a call that are ours; Celery would pass them on to the broker without a word.
OPTIONS: Final = ("kind", "request_id", "tenant", "timeout_seconds", "tokens")

#: Thirty years, in seconds.
FOR_EVER: Final = 1e9


def known_kind(kind: object, where: str = "kind=") -> Kind:
    """Return the kind, or raise `UnknownKind` naming ``where`` it was said."""
    if kind == INTERACTIVE:
        return INTERACTIVE
    if kind == BATCH:
        return BATCH
    raise UnknownKind(kind, KINDS, where)


def declared_kind(task: Any) -> Kind | None:
    """Return what a task says of itself, by ``@fair_task(kind=)`` or an attribute ``fair_kind``.

    ``@app.task(kind=)`` says it too.

    Raises `UnknownKind` for a word that is no kind: ignoring it would send bulk to people.
    """
    kind = getattr(task, "fair_kind", None)
    kind = own_option(task, "kind") if kind is None else kind
    return None if kind is None else known_kind(kind, f"kind of {task.name}")


def own_option(task: Any, name: str) -> Any:
    """Return what a decorator of Celery's was given as ``name=``, as in ``@app.task(kind=…)``.

    Such options become attributes of the task's own class. Only there are they surely meant for us:
    a class-based task may have a ``kind`` of its own.
    """
    own = vars(type(task))
    return own.get(name) if "__wrapped__" in own else None


def known_timeout(seconds: Any, where: str = "timeout_seconds=") -> float:
    """Return how long a task may wait, in seconds; raises `BadOption` naming ``where`` it was said.

    Infinite is for ever; it travels as a number that every JSON parser reads.
    """
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
        return min(float(seconds), FOR_EVER)
    raise BadOption(where, "seconds over 0, or math.inf for no timeout", seconds)


def known_keeping(seconds: Any, where: str = "fair_task(deduplicate_seconds=…)") -> float:
    """Return how long a result answers the same request, in seconds, 0 for never.

    Raises `BadOption`.
    """
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
        return min(float(seconds), FOR_EVER)
    raise BadOption(where, "seconds over 0, or 0 to run each request", seconds)


def own_options(options: Mapping[str, Any]) -> list[str]:
    """Return which of our options are given; a stamp may bear such a name and stays Celery's."""
    stamps = options.get("stamped_headers") or ()
    return [name for name in OPTIONS if name in options and name not in stamps]
