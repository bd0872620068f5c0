"""What a lane holds, of one tenant or of many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from celery_fair.policy.tenant_rules import Tenant
from celery_fair.policy.tenants import Turns
from celery_fair.sim.task import Task


class Held(Protocol):
    """Tasks that were received and not started; a ``deque`` is one, where nobody has a tenant."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Task]: ...
    def append(self, task: Task, /) -> None: ...
    def popleft(self) -> Task: ...
    def remove(self, task: Task, /) -> None: ...
    def clear(self) -> None: ...


class TenantsHeld:
    """Tenants take turns, and each one's tasks come as they were received."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._lines: dict[Tenant, deque[Task]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Task]:
        return (task for line in self._lines.values() for task in line)

    def append(self, task: Task) -> None:
        self._lines.setdefault(task.tenant, deque()).append(task)
        self._count += 1
        self.turns.join(task.tenant)

    def popleft(self) -> Task:
        """Take the next of the tenant that has its turn."""
        task = self._lines[self.turns.next()][0]
        self.remove(task)
        return task

    def remove(self, task: Task) -> None:
        line = self._lines[task.tenant]
        line.remove(task)
        self._count -= 1
        if not line:
            del self._lines[task.tenant]
            self.turns.leave(task.tenant)

    def clear(self) -> None:
        for task in list(self):
            self.remove(task)
