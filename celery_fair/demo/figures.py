"""What was measured, with what could not be measured to its end marked as such."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE


class Wait(NamedTuple):
    """Seconds from publish to start; ``at_least`` for one that was still waiting at the end."""

    seconds: float
    at_least: bool = False


def quantile(waits: Sequence[Wait], q: float) -> Wait | None:
    """The quantile of the known parts; ``at_least`` if an unfinished wait could move it up."""
    if not waits:
        return None
    ordered = sorted(waits)
    found = ordered[min(int(q * len(ordered)), len(ordered) - 1)].seconds
    return Wait(found, any(wait.at_least and wait.seconds <= found for wait in waits))


@dataclass
class Side:
    """The figures of one side, gathered from its journal while it runs."""

    name: str
    seconds: float
    sent_at: dict[int, float] = field(default_factory=dict)
    """Interactive tasks by number: when each was sent, in epoch seconds."""
    waits: dict[int, float] = field(default_factory=dict)
    batch_sent: int = 0
    batch_done: int = 0
    """Both within the ``seconds`` of the load, which both sides have alike."""
    began_at: float = 0.0
    ended_at: float = 0.0

    def take(self, entry: Mapping[str, Any]) -> None:
        """Count one entry of the journal."""
        if entry["event"] == "started" and entry["kind"] == INTERACTIVE:
            self.waits[entry["number"]] = max(entry["wait_seconds"], 0.0)
        elif entry["event"] == "done" and entry["kind"] == BATCH:
            self.batch_done += entry["at"] - self.began_at <= self.seconds

    @property
    def all_started(self) -> bool:
        return len(self.waits) == len(self.sent_at)

    def interactive_waits(self, now: float) -> list[Wait]:
        """The wait of each interactive task; of one that has not started, what it is by now."""
        return [
            Wait(self.waits[number])
            if number in self.waits
            else Wait(max(now - sent, 0.0), at_least=True)
            for number, sent in self.sent_at.items()
        ]

    def wait_figures(self) -> dict[str, Wait | None]:
        """p50, p95 and the longest wait."""
        waits = self.interactive_waits(self.ended_at)
        return {name: quantile(waits, q) for name, q in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}

    def as_dict(self) -> dict[str, Any]:
        figures = self.wait_figures()
        return {
            "interactive": {
                "sent": len(self.sent_at),
                "started": len(self.waits),
                "wait_seconds": {
                    name: None if wait is None else round(wait.seconds, 4)
                    for name, wait in figures.items()
                },
                "at_least": {name: bool(wait and wait.at_least) for name, wait in figures.items()},
            },
            "batch": {"sent": self.batch_sent, "done": self.batch_done},
        }


class JournalReader:
    """The entries that have come since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
