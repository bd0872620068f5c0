"""Asking running batch tasks to yield, in virtual time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from celery_fair.policy.kinds import BATCH
from celery_fair.policy.yields import Candidate, YieldRules, able, choose
from celery_fair.sim.task import Task

if TYPE_CHECKING:
    from celery_fair.sim.worker import Worker

_BACK_WEIGHT = 0.2
"""Of the latest time in the mean of those that slots took to come back."""


class Asking:
    """Of one worker. A task that is asked leaves at the end of the piece it is at."""

    def __init__(self, worker: Worker, rules: YieldRules) -> None:
        self._worker = worker
        self._rules = rules
        self._asked: dict[Task, float] = {}

    def tick(self, now: float) -> int:
        """Tell the policy how often a slot could be had, if each batch task that runs can yield.

        Return for how many interactive tasks one could be had now.
        """
        policy = self._worker.policy
        batch = [task for task in self._worker.running if task.kind == BATCH]
        if batch:
            every = all(task.yields_every for task in batch)
            policy.rely_on_yields(self._rules.slots_a_second(len(batch)) if every else 0.0, now)
        demand = policy.demand(len(self._worker.interactive.held), now)
        most = demand.batch_running - demand.batch_floor
        return max(min(len(able(self._candidates(now), self._rules)), most), 0)

    def look(self, now: float) -> None:
        """Ask whom it takes, and nobody who is not needed any more."""
        worker = self._worker
        demand = worker.policy.demand(len(worker.interactive.held), now)
        if not demand.wanted and not self._asked:
            return
        choice = choose(demand, self._candidates(now), self._rules)
        for task in choice.withdraw:
            del self._asked[task]  # type: ignore[arg-type]
        for task in choice.ask:
            assert isinstance(task, Task)
            self._asked[task] = now
            pieces = math.floor((now - task.started) / task.yields_every) + 1
            end = task.started + pieces * task.yields_every
            worker.host.at(end, self._comes_to_an_end, (task, task.started))

    def left(self, task: Task, now: float) -> None:
        """A slot was given back, perhaps by one that was asked."""
        at = self._asked.pop(task, None)
        if at is not None:
            policy = self._worker.policy
            known = policy.slot_back_seconds or now - at
            policy.slot_back_seconds = known + (now - at - known) * _BACK_WEIGHT

    def _comes_to_an_end(self, what: tuple[Task, float]) -> None:
        task, began = what
        if task in self._asked and task.started == began and task in self._worker.running:
            self._worker.leave(task)

    def _candidates(self, now: float) -> list[Candidate]:
        return [
            Candidate(task, now - task.started, 0.0, self._since(task, now))
            for task in self._worker.running
            if task.kind == BATCH and task.yields_every
        ]

    def _since(self, task: Task, now: float) -> float | None:
        at = self._asked.get(task)
        return None if at is None else now - at
