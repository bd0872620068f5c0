"""What beat sends: entries are calls, with a kind and a queue of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from celery_fair.app import Fair


class Entry(NamedTuple):
    """One entry of ``beat_schedule``: which task, and with which options it is called."""

    name: str
    task: str
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"beat's {self.name}"


def entries(fair: Fair) -> Iterator[Entry]:
    """Those of the configuration; a database's are known to its scheduler alone."""
    schedule = fair.app.conf.beat_schedule
    for name, entry in schedule.items() if isinstance(schedule, Mapping) else ():
        get = (
            entry.get if isinstance(entry, Mapping) else lambda key, e=entry: getattr(e, key, None)
        )
        task, options = get("task"), get("options")
        if isinstance(task, str):
            yield Entry(str(name), task, options if isinstance(options, Mapping) else {})
