"""What simulated workers share: the same store in memory that Redis is held to."""

from __future__ import annotations

from collections.abc import Sequence

from celery_fair.policy.kinds import Kind
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.resources.store import Ended, Want
from celery_fair.sim.task import Task


class Places:
    """One worker's tasks that use something: those that wait for it, hold it, and gave it back."""

    def __init__(self, store: MemoryStore, worker: str, life: int) -> None:
        self._store = store
        self._worker = worker
        self._life = f"{worker}.{life}"
        """A lease is of one attempt, and not of a later one after a restart."""
        self.waiting: dict[str, Task] = {}
        self._held: dict[str, Task] = {}
        self._ended: list[Ended] = []

    def want(self, task: Task) -> None:
        """A task has to wait here first: it uses something."""
        self.waiting[self._lease(task)] = task

    def end(self, task: Task, *, began: bool = True) -> None:
        """It gives back what it holds, if anything."""
        if self._held.pop(self._lease(task), None) is not None:
            self._ended.append(Ended(self._lease(task), began))

    def ask(self, most: dict[Kind, int]) -> Sequence[Task]:
        """Give back, renew, and take what can be had for so many tasks of each kind."""
        wants, left = [], dict(most)
        for task in self.waiting.values():
            if left[task.kind] > 0:
                left[task.kind] -= 1
                wants.append(self._want(task))
        if not (wants or self._held or self._ended):
            return ()
        running = [self._want(task) for task in self._held.values()]
        ended, self._ended = self._ended, []
        granted = self._store.turn(self._worker, wants, running, ended).granted
        taken = [self.waiting.pop(lease) for lease in granted]
        self._held.update((self._lease(task), task) for task in taken)
        return taken

    def _want(self, task: Task) -> Want:
        return Want(self._lease(task), task.kind, task.uses)

    def _lease(self, task: Task) -> str:
        return f"{self._life}.{task.number}"
