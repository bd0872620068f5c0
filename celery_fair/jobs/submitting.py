"""What `Fair.submit_job` is asked for, checked whole before anything is kept or published."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery import Task
from celery.canvas import Signature
from celery.utils import uuid
from kombu.utils.json import dumps, loads

from celery_fair.errors import BadOption, did_you_mean
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.task import way_of
from celery_fair.options import own_options
from celery_fair.policy.chunks import MOST_ITEMS
from celery_fair.publish import Publish

if TYPE_CHECKING:
    from celery_fair.app import Fair

#: Options of ``apply_async`` that mean the same for each chunk's message. The others name one task,
#: or one that others wait for.
OPTIONS: Final = (
    "kind", "tenant", "request_id", "queue", "exchange", "routing_key", "priority", "headers",
    "time_limit", "soft_time_limit", "serializer", "compression", "delivery_mode",
)  # fmt: skip

#: Ids stand in keys, URLs and command lines.
ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")

CALLS: Final = {"progress": "on_progress", "finish": "on_finish", "failures": "on_failures"}


class Limits(NamedTuple):
    """What a number may be."""

    low: float
    high: float
    is_whole: bool = True

    def __str__(self) -> str:
        what = "a whole number" if self.is_whole else "a number"
        return f"{what} from {self.low:g} to {self.high:g}"


NUMBERS: Final[Mapping[str, Limits]] = {
    "total": Limits(0, 1e12),
    "chunk_items": Limits(1, MOST_ITEMS),
    "chunk_seconds": Limits(0.01, 3600, is_whole=False),
    "backlog": Limits(1, 10_000),
    "ahead": Limits(1, 1_000_000),
    "max_failures": Limits(0, 1e12, is_whole=False),
    "progress_seconds": Limits(0.1, 86_400, is_whole=False),
    "keep_seconds": Limits(60, 366 * 86_400, is_whole=False),
}


def make_plan(
    fair: Fair,
    task: Any,
    numbers: Mapping[str, Any],
    callbacks: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    id: object,
    results: object,
) -> Plan:
    """Return the plan of a job; raises `BadOption` for the first thing that can't be."""
    found = known_task(fair, task)
    for name, value in numbers.items():
        check_number(name, value)
    if not isinstance(results, bool):
        raise BadOption("submit_job(results=…)", "True or False", results)
    return Plan(
        id=known_id(id),
        task=found.name,
        options=resolved(fair, found, options),
        results=results,
        calls=known_calls(callbacks),
        **numbers,
    )


def known_task(fair: Fair, task: Any) -> Any:
    """Return the job task that is meant, by itself or by its name."""
    name = task if isinstance(task, str) else getattr(task, "name", None)
    found = fair.app.tasks.get(name) if isinstance(name, str) else None
    if found is None or way_of(found) is None:
        expected = "a task of this app that was made by @job_task"
        raise BadOption("submit_job(task)", expected, name or type(task))
    return found


def known_id(id: object) -> str:
    """Return the id of a job: a new one for None."""
    if id is None:
        return uuid()
    if isinstance(id, str) and ID.fullmatch(id):
        return id
    expected = "up to 128 letters, digits and any of . _ : @ + - after the first"
    raise BadOption("submit_job(id=…)", expected, id)


def check_number(name: str, value: object) -> None:
    """Raise `BadOption` for a number that can't be; those that may be left out may be None."""
    limits, where = NUMBERS[name], f"submit_job({name}=…)"
    if value is None and name in ("total", "chunk_items", "max_failures"):
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (limits.is_whole and not isinstance(value, int)):
        raise BadOption(where, str(limits), value)
    if not limits.low <= value <= limits.high:  # type: ignore[operator]
        raise BadOption(where, str(limits), value)
    if name == "max_failures" and isinstance(value, float) and value >= 1 and value % 1:
        raise BadOption(where, "a number of items, or a part of them under 1", value)


def known_calls(callbacks: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the callbacks as they are kept; a task stands for its signature."""
    found = {}
    for call, callback in callbacks.items():
        if callback is None:
            continue
        asked = callback.s() if isinstance(callback, Task) else callback
        try:
            if not isinstance(asked, Signature):
                raise TypeError
            found[call] = loads(dumps(asked))
        except Exception as error:
            where = f"submit_job({CALLS[call]}=…)"
            expected = "a task or a signature with arguments that JSON can hold"
            raise BadOption(where, expected, type(callback)) from error
    return found


def resolved(fair: Fair, task: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of each chunk's publish, with the kind and identity that one here has.

    They are published elsewhere, and must be alike.
    """
    for name in options:
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS)
            raise BadOption("submit_job(…)", f"an option of {', '.join(OPTIONS)}{hint}", name)
    kept = {name: value for name, value in options.items() if value is not None}
    header = Publish(fair, task.name, task, (), {}, dict(kept), time.time()).header
    said = {"kind": header.kind, "tenant": header.tenant, "request_id": header.request_id}
    for name in own_options(kept):
        del kept[name]
    kept.update({name: value for name, value in said.items() if value is not None})
    try:
        return dict(loads(dumps(kept)))
    except Exception as error:
        expected = "options that JSON can hold, as a queue's name"
        raise BadOption("submit_job(…)", expected, sorted(kept)) from error
