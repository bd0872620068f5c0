"""One JSON line a task that has ended, and one a change of the gate; never arguments or results."""

from __future__ import annotations

import json
import logging
from typing import Any, Final
from zlib import crc32

from celery_fair.observer import GateChange, Observer, TaskInfo

TASKS: Final = "celery_fair.tasks"
GATE: Final = "celery_fair.gate"

_tasks = logging.getLogger(TASKS)
_gate = logging.getLogger(GATE)

LONGEST_ID: Final = 256
"""Characters of an id: whoever publishes may choose it."""


class TaskLog(Observer):
    """Writes at INFO to the loggers `TASKS` and `GATE`; the setting ``log_tasks`` makes one.

    ``sample`` is the part of tasks that is written, (0, 1]; which is decided by the id, so that the
    retries of a task are all there, or none of them. Changes of the gate are written all.
    """

    def __init__(self, worker: str, sample: float) -> None:
        self._worker = worker
        self.sample(sample)

    def sample(self, part: float) -> None:
        """Write this part of tasks from now on."""
        self._below = round(part * 2**32)

    def finished(self, task: TaskInfo) -> None:
        if not _tasks.isEnabledFor(logging.INFO):
            return
        if crc32(str(task.id).encode(errors="replace")) < self._below:
            self._write(_tasks, {"event": "task", **task_fields(task)})

    dropped = finished

    def mode_changed(self, change: GateChange) -> None:
        self._write(_gate, {"event": "gate", **change._asdict()})

    def _write(self, logger: logging.Logger, fields: dict[str, Any]) -> None:
        fields["worker"] = self._worker
        line = json.dumps(fields, separators=(",", ":"))
        logger.info("%s", line, extra={"celery_fair": fields})


def task_fields(task: TaskInfo) -> dict[str, Any]:
    """What is written of a task; times are epoch seconds."""
    return {
        "kind": task.kind,
        "task": task.name,
        "id": str(task.id)[:LONGEST_ID],
        "queue": task.queue,
        "enqueued_at": _rounded(task.enqueued_at),
        "pulled_at": _rounded(task.pulled_at),
        "started_at": _rounded(task.started_at),
        "finished_at": _rounded(task.finished_at),
        "wait_seconds": _rounded(task.wait_seconds),
        "run_seconds": _rounded(task.run_seconds),
        "mode": task.mode,
        "outcome": task.outcome,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
