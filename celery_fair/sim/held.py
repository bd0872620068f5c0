"""What waits at the broker and in a lane, of one tenant or of many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from celery_fair.policy.tenant_rules import Tenant
from celery_fair.policy.tenants import Turns
from celery_fair.sim.result import Task


class Ready:
    """Messages of one kind at the broker: one queue, or one a shard.

    Tenants get the shards in turn, as they come up; a worker takes from the shard whose first
    message is of the tenant that has its turn there, of several from the one that was taken from
    the longest ago. (A real one only knows whose message it saw there last.)
    """

    def __init__(self, shards: int = 1) -> None:
        self._shards: list[deque[Task]] = [deque() for _ in range(shards)]
        self._of: dict[Tenant, int] = {}
        self._taken = [0] * shards
        self._number = 0

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def append(self, task: Task) -> None:
        self._shard(task).append(task)

    def appendleft(self, task: Task) -> None:
        self._shard(task).appendleft(task)

    def pop(self, turns: Turns) -> Task:
        """Take the message that is next to a worker with these turns."""
        if len(self._shards) == 1:
            return self._shards[0].popleft()
        some = [number for number, shard in enumerate(self._shards) if shard]
        first = min(some, key=lambda n: (turns.time_of(self._shards[n][0].tenant), self._taken[n]))
        self._number += 1
        self._taken[first] = self._number
        return self._shards[first].popleft()

    def _shard(self, task: Task) -> deque[Task]:
        return self._shards[self._of.setdefault(task.tenant, len(self._of)) % len(self._shards)]


class Held:
    """What a lane holds: tenants take turns, and each one's tasks come as they were received."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._lines: dict[Tenant, deque[Task]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Task]:
        return (task for line in self._lines.values() for task in line)

    def append(self, task: Task) -> None:
        self._lines.setdefault(task.tenant, deque()).append(task)
        self.turns.join(task.tenant)

    def popleft(self) -> Task:
        """Take the next of the tenant that has its turn."""
        task = self._lines[self.turns.next()][0]
        self.remove(task)
        return task

    def remove(self, task: Task) -> None:
        line = self._lines[task.tenant]
        line.remove(task)
        if not line:
            del self._lines[task.tenant]
            self.turns.leave(task.tenant)

    def clear(self) -> None:
        for task in list(self):
            self.remove(task)

    @property
    def first(self) -> Task | None:
        """The one that was received first."""
        return min(self, key=lambda task: task.received, default=None)
