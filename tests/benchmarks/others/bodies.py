"""What a task does: the ruler's bodies, for libraries other than Celery."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mixed_load.bodies import journal_path, register_sleepers
from mixed_load.contestant import BATCH_TASK, INTERACTIVE_TASK
from mixed_load.journal import JournalWriter, drain_flag

from tests.benchmarks.others.contestants import BROKER_VARIABLE


def broker_url() -> str:
    return os.environ[BROKER_VARIABLE]


@dataclass
class _Collector:
    """Takes the ruler's tasks as an app would."""

    found: dict[str, Callable[..., None]] = field(default_factory=dict)

    def task(self, name: str, **_: Any) -> Callable[[Callable[..., None]], None]:
        return lambda function: self.found.__setitem__(name, function)


journal = JournalWriter(journal_path())
_collector = _Collector()
register_sleepers(_collector, journal, drain_flag(journal_path()))  # type: ignore[arg-type]
perform = {
    "interactive": _collector.found[INTERACTIVE_TASK],
    "batch": _collector.found[BATCH_TASK],
}
