"""Which running batch tasks are asked to yield, so that interactive ones find a slot."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

PATIENCE_SECONDS: Final = 1.0
"""How long a task that was asked is counted on; then another is asked as well."""

SOON_SECONDS: Final = 0.05
"""A slot that frees by itself within this time is worth no yield."""


class Candidate(NamedTuple):
    """A batch task that runs and can yield. Times are seconds until now."""

    key: Hashable
    run_seconds: float
    setup_seconds: float
    """Of these it took so long before it could yield: what each run of it costs anew."""
    asked_seconds: float | None = None
    """Since it was asked; None if it isn't."""

    @property
    def is_late(self) -> bool:
        """Whether it was asked and has not reacted: it can't be counted on."""
        return (self.asked_seconds or 0.0) > PATIENCE_SECONDS


class Demand(NamedTuple):
    """What waits, and what may give way to it. Numbers of tasks and slots of this worker."""

    interactive_waiting: int
    free: int
    batch_running: int
    batch_floor: int
    """So many batch tasks go on: the guarantee."""
    interactive_running: int = 0
    interactive_seconds: float = 0.0
    """The mean run time of an interactive task, 0 if unknown."""

    @property
    def wanted(self) -> int:
        """How many batch tasks should give way."""
        lacking = self.interactive_waiting - self.free - self._free_soon
        return max(min(lacking, self.batch_running - self.batch_floor), 0)

    @property
    def _free_soon(self) -> int:
        if self.interactive_seconds <= 0:
            return 0
        return int(self.interactive_running * SOON_SECONDS / self.interactive_seconds)


@dataclass(frozen=True, slots=True)
class YieldRules:
    """When a task may be asked: after ``min_seconds``, and where it costs at most this part of it.

    Each run of a task costs what it does before it can yield. So a run that lasts for
    ``setup / max_overhead`` loses no more than ``max_overhead`` of itself to having yielded before,
    and as that holds for each, it holds for batch as a whole. No history is kept, and none needed:
    of two jobs that evict each other, each runs for so long in between.
    """

    min_seconds: float = 1.0
    max_overhead: float = 0.05

    def is_light(self, candidate: Candidate) -> bool:
        """Whether it may be asked soon after the minimum, for what it took to set up."""
        return candidate.setup_seconds / self.max_overhead <= 2 * self.min_seconds

    def slots_a_second(self, running: int) -> float:
        """How often so many tasks, if each can yield, could give a slot back."""
        return running / self.min_seconds

    def may_be_asked(self, candidate: Candidate) -> bool:
        """Whether it has run for long enough."""
        earned = candidate.setup_seconds / self.max_overhead
        return candidate.run_seconds >= max(self.min_seconds, earned)


class Choice(NamedTuple):
    """Whom to ask, and whom not to ask any more."""

    ask: list[Hashable]
    withdraw: list[Hashable]


def choose(demand: Demand, candidates: Iterable[Candidate], rules: YieldRules) -> Choice:
    """Ask as many as are wanted and not more, those first that have run for longest.

    What was asked and has not reacted within `PATIENCE_SECONDS` is not counted on, yet it may still
    react: no more are asked in all than may leave.
    """
    candidates = list(candidates)
    asked = sorted(
        (one for one in candidates if one.asked_seconds is not None),
        key=lambda one: one.asked_seconds or 0.0,
    )
    in_time = sum(not one.is_late for one in asked)
    surplus = in_time - demand.wanted if demand.wanted else len(asked)
    if surplus > 0:
        return Choice([], [one.key for one in asked[:surplus]])
    most = demand.batch_running - demand.batch_floor - len(asked)
    missing = min(demand.wanted - in_time, most)
    if missing <= 0:
        return Choice([], [])
    able = [one for one in candidates if one.asked_seconds is None and rules.may_be_asked(one)]
    able.sort(key=lambda one: one.run_seconds, reverse=True)
    return Choice([one.key for one in able[:missing]], [])


def able(candidates: Iterable[Candidate], rules: YieldRules) -> list[Candidate]:
    """Those that could be asked now, or were a moment ago."""
    return [
        one
        for one in candidates
        if not one.is_late and (one.asked_seconds is not None or rules.may_be_asked(one))
    ]
