"""What has become of each task of a test, and waiting for it without polling."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from celery_fair.observe.endings import REQUEUED, RETRIED, YIELDED
from celery_fair.observer import Observer, TaskInfo
from celery_fair.policy.kinds import KINDS, Kind

Fact = TypeVar("Fact")

WAITS_AGAIN: Final = (YIELDED, REQUEUED)
GOES_ON: Final = (*WAITS_AGAIN, RETRIED)
"""A retry is published, and so has been told of."""


@dataclass(slots=True)
class Story:
    """One task; times are epoch seconds, of its latest run."""

    id: str
    kind: Kind
    name: str
    queued_at: float | None = None
    wait_seconds: float | None = None
    """Until its first start."""
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str | None = None
    """How it has ended, if it doesn't go on."""
    runs: int = 0
    yields: int = 0
    slots: int = 0
    """That it has: a run may begin before it is told that the last one has ended."""

    @property
    def is_over(self) -> bool:
        return self.outcome is not None and not self.slots


@dataclass(slots=True)
class Run:
    """A slot that a task has had; ``ended_at`` is None as long as it has it."""

    kind: Kind
    started_at: float
    ended_at: float | None = None


@dataclass
class Journal:
    """All tasks by id; whoever waits is woken by each entry."""

    stories: dict[str, Story] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    waiting: Counter[Kind] = field(default_factory=Counter)
    """By kind: published by the test, or yielded, and in no slot."""
    changes: int = 0
    """How many entries there are."""
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[str, list[Run]] = {}

    def wait(self, fact: Callable[[], Fact], seconds: float) -> Fact:
        """Return the first true value of ``fact()``, or what it is after so many seconds."""
        end = time.monotonic() + seconds
        with self._changed:
            while not (value := fact()) and not self.is_closed:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return value

    def wait_for_more(self, changes: int, seconds: float) -> None:
        """Return once there are more entries than ``changes``, or after so many seconds."""
        self.wait(lambda: self.changes != changes, seconds)

    def close(self) -> None:
        """Let nobody wait any longer: the worker is gone."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def running(self) -> int:
        """How many slots are taken."""
        with self._changed:
            return sum(map(len, self._open.values()))

    def take(self, hook: str, told: Mapping[str, Any]) -> None:
        """Note what an observer's hook was told."""
        with self._changed:
            story = self.stories.setdefault(
                told["id"], Story(told["id"], told["kind"], told["name"])
            )
            getattr(self, f"_{hook}")(story, told)
            self.changes += 1
            self._changed.notify_all()

    def _queued(self, story: Story, told: Mapping[str, Any]) -> None:
        story.queued_at = told["enqueued_at"]
        self.waiting[story.kind] += 1

    def _dispatched(self, story: Story, told: Mapping[str, Any]) -> None:
        story.runs += 1
        story.slots += 1
        story.started_at = told["started_at"]
        if story.wait_seconds is None and story.started_at is not None:
            begun = told["enqueued_at"] or story.started_at
            story.wait_seconds = max(story.started_at - begun, 0.0)
        run = Run(story.kind, story.started_at or time.time())
        self._open.setdefault(story.id, []).append(run)
        self.runs.append(run)
        self.waiting[story.kind] -= 1

    def _finished(self, story: Story, told: Mapping[str, Any]) -> None:
        story.slots -= 1
        story.ended_at = told["finished_at"]
        if told["outcome"] == YIELDED:
            story.yields += 1
        if told["outcome"] in WAITS_AGAIN:
            self.waiting[story.kind] += 1
        if told["outcome"] not in GOES_ON:
            story.outcome = told["outcome"]
        runs = self._open.get(story.id)
        if runs:
            runs.pop(0).ended_at = story.ended_at or time.time()
            if not runs:
                del self._open[story.id]

    def _dropped(self, story: Story, told: Mapping[str, Any]) -> None:
        story.outcome = told["outcome"]
        self.waiting[story.kind] -= 1

    def slot_seconds(self, begin: float, end: float) -> dict[Kind, float]:
        """By kind: how long slots were taken between the two."""
        found: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
        with self._changed:
            for run in self.runs:
                until = end if run.ended_at is None else min(run.ended_at, end)
                found[run.kind] += max(until - max(run.started_at, begin), 0.0)
        return found


class Telling(Observer):
    """Hands what a worker notes to ``take(hook, told)``."""

    def __init__(self, take: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._take = take

    def queued(self, task: TaskInfo) -> None:
        self._take("queued", task._asdict())

    def dispatched(self, task: TaskInfo) -> None:
        self._take("dispatched", task._asdict())

    def finished(self, task: TaskInfo) -> None:
        self._take("finished", task._asdict())

    def dropped(self, task: TaskInfo) -> None:
        self._take("dropped", task._asdict())
