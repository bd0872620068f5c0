"""Findings, and the list of what can be found; ``docs/doctor.md`` has the same list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["info", "warning", "error"]

NAMED = 5
"""How many subjects a sentence names; JSON has them all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: what it is, why it matters, and what to do."""

    id: str
    severity: Severity
    what: str
    why: str
    cure: str
    subjects: tuple[str, ...] = ()
    """The tasks, queues or workers concerned."""

    def line(self) -> str:
        """All of it in one line, for a log."""
        return f"{self.id}: {self.what}. {self.why} {self.cure}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding: its id is never given to another."""

    id: str
    severity: Severity
    title: str

    def finding(
        self,
        what: str,
        why: str,
        cure: str,
        subjects: Iterable[str] = (),
        severity: Severity | None = None,
    ) -> Finding:
        return Finding(self.id, severity or self.severity, what, why, cure, tuple(subjects))


UNCLASSIFIED: Final = Rule("F001", "warning", "tasks that nobody gave a kind")
WRONG_LANE: Final = Rule("F002", "warning", "a task's queue belongs to the other kind")
SHORT_FOR_RUN: Final = Rule("F003", "warning", "the broker's patience ends before a task's limit")
SHORT_FOR_HOLD: Final = Rule("F004", "warning", "the broker's patience is short for holding")
KEPT_QUEUE: Final = Rule("F005", "info", "a queue that must not lose its consumer")
SLOW_GREENLETS: Final = Rule("F006", "warning", "gevent or eventlet on RabbitMQ with heartbeats")
NOT_INSTALLED: Final = Rule("F007", "error", "no Fair in this app")
SWITCHED_OFF: Final = Rule("F008", "info", "celery-fair is switched off")
BAD_SETTINGS: Final = Rule("F009", "error", "settings that can't be used")
UNKNOWN_KIND: Final = Rule("F010", "error", "a task's kind does not exist")
NO_TIMEOUT: Final = Rule("F011", "info", "tasks that may wait for ever")
UNKEPT_LIMIT: Final = Rule("F012", "warning", "a time limit on a pool that has none")
UNREACHABLE: Final = Rule("F101", "error", "the broker can't be asked")
NO_WORKER: Final = Rule("F102", "warning", "no worker answers")
NOT_CONSUMED: Final = Rule("F103", "error", "a queue of a kind that nobody consumes")
PLAIN_WORKER: Final = Rule("F104", "warning", "a worker without celery-fair takes from our queues")
DIFFERENT_SETTINGS: Final = Rule("F105", "warning", "workers with different settings")
DIFFERENT_VERSIONS: Final = Rule("F106", "warning", "workers with different versions")

RULES: Final[tuple[Rule, ...]] = (
    UNCLASSIFIED,
    WRONG_LANE,
    SHORT_FOR_RUN,
    SHORT_FOR_HOLD,
    KEPT_QUEUE,
    SLOW_GREENLETS,
    NOT_INSTALLED,
    SWITCHED_OFF,
    BAD_SETTINGS,
    UNKNOWN_KIND,
    NO_TIMEOUT,
    UNKEPT_LIMIT,
    UNREACHABLE,
    NO_WORKER,
    NOT_CONSUMED,
    PLAIN_WORKER,
    DIFFERENT_SETTINGS,
    DIFFERENT_VERSIONS,
)


def named(subjects: Iterable[str]) -> str:
    """``a, b, c``; the first few of many."""
    names = list(subjects)
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
