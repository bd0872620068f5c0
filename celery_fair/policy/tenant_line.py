"""A line of tenants, the one whose time is the earliest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final

from celery_fair.policy.tenant_rules import Tenant

SLACK: Final = 64
"""Entries of a line that may be out of date, beside one for each that counts."""

_numbers = count()
"""Of all lines: an account that has gone to another one has no entry in the first that counts."""


class Account:
    """One tenant: its time, and what of it waits and runs here."""

    __slots__ = (
        "entry", "is_barred", "is_excused", "joined_at", "line", "mean_seconds", "part", "running",
        "tenant", "time", "weight",
    )  # fmt: skip

    def __init__(self, tenant: Tenant, weight: float, part: int | None, time: float) -> None:
        self.tenant = tenant
        self.weight = weight
        self.part = part
        """How many of its tasks may run here while others wait; ``None``: any number."""
        self.time = time
        self.line: Line | None = None
        """Where it waits, if it does."""
        self.running = 0
        self.joined_at = -math.inf
        """When it began to wait, or when a task of it started last."""
        self.is_barred = False
        """Whether something of it waits that may not start yet."""
        self.is_excused = False
        """Whether its next task may start though it is at its cap: it has waited for long."""
        self.mean_seconds = 0.0
        self.entry = -1
        """Number of its entry in a line that counts; others are out of date."""

    @property
    def is_capped(self) -> bool:
        """Whether it runs all that it may while others wait."""
        return self.part is not None and self.running >= self.part and not self.is_excused


class Line:
    """Accounts by their time, then by who came first. Entries out of date stay until they surface.

    A time that has grown since is found as the entry surfaces, one that has shrunk needs a new one.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Account]] = []
        self.size = 0

    def put(self, account: Account) -> None:
        """Enter it, for the first time."""
        account.line = self
        self.size += 1
        account.entry = entry = next(_numbers)  # as `move`, on the path of every message
        heap = self.heap
        heappush(heap, (account.time, entry, account))
        if len(heap) > 2 * self.size + SLACK:
            self._tidy()

    def move(self, account: Account) -> None:
        """Enter it anew: its time has shrunk."""
        account.entry = next(_numbers)
        heappush(self.heap, (account.time, account.entry, account))
        if len(self.heap) > 2 * self.size + SLACK:
            self._tidy()

    def _tidy(self) -> None:
        self.heap = [entry for entry in self.heap if entry[1] == entry[2].entry]
        heapify(self.heap)

    def drop(self, account: Account) -> None:
        """It waits here no longer."""
        account.line = None
        account.entry = -1
        self.size -= 1

    def __iter__(self) -> Iterator[Account]:
        return (account for _, entry, account in self.heap if entry == account.entry)

    def first(self) -> Account | None:
        """The one whose time is the earliest."""
        heap = self.heap
        while heap:
            time, entry, account = heap[0]
            if entry != account.entry:
                heappop(heap)
            elif time < account.time:
                account.entry = next(_numbers)  # behind those who have waited at that time
                heapreplace(heap, (account.time, account.entry, account))
            else:
                return account
        return None
