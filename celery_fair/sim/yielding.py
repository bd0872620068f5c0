"""Asking running batch tasks to yield, in virtual time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from celery_fair.policy.kinds import BATCH
from celery_fair.policy.yields import Candidate, YieldRules, choose
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

    def tick(self, now: float) -> None:
        """Tell the policy how often a slot could be had, if each batch task that runs can yield."""
        policy = self._worker.policy
        batch = [task for task in self._worker.running if task.kind == BATCH]
        if batch:
            every = all(task.yields_every for task in batch)
            policy.rely_on_yields(self._rules.slots_a_second(len(batch)) if every else 0.0, now)

    def look(self, now: float) -> None:
        """Ask whom it takes, and nobody who is not needed any more."""
        worker = self._worker
        demand = worker.policy.demand(len(worker.interactive.held), now)
        if not demand.wanted and not self._asked:
            return
        candidates = [
            Candidate(task, now - task.started, 0.0, self._since(task, now))
            for task in worker.running
            if task.kind == BATCH and task.yields_every
        ]
        choice = choose(demand, candidates, self._rules)
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

    def _since(self, task: Task, now: float) -> float | None:
        at = self._asked.get(task)
        return None if at is None else now - at
