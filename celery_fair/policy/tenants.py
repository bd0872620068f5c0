"""Whose turn it is: tenants share the slot-seconds of their kind in one worker.

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996, section 2), in its form for a server that
runs several at once (SFQ(D): Jin, Chase, Kaur, SIGMETRICS 2004, section 3.2). It needs no run time
before a task starts, which nobody knows. Each tenant has a time of its own, which goes on by
slot-seconds / weight; the one whose time is the earliest is next, and the kind's time is where
those are that start.

What this adds: a task is charged what tasks of its tenant took last as it starts, more as it runs
on, and what it took in truth as it ends. While tasks of two tenants always wait, their slot-seconds
per weight differ by no more than ``(slots + 1) · L · (1/w₁ + 1/w₂)``, L the longest run (or what
was taken for one: `FIRST_ESTIMATE_SECONDS`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final

Tenant = str | None
"""No tenant is a tenant like any other."""

REMEMBERED: Final = 4096
"""Tenants that neither wait nor run, of which is known what they have had; the latest."""

FIRST_ESTIMATE_SECONDS: Final = 1.0
"""Charged while nothing has ended yet: any number makes tenants take turns."""

NEWEST: Final = 0.2
"""How much the latest run counts in an estimate of the next."""

SLACK: Final = 64
"""Entries of a line that may be out of date, beside one for each that counts."""


def no_weights(tenant: Tenant) -> float:
    """All count alike."""
    return 1.0


class Account:
    """One tenant: its time, and what of it waits and runs here."""

    __slots__ = ("entry", "mean_seconds", "running", "tenant", "time", "waits", "weight")

    def __init__(self, tenant: Tenant, weight: float, time: float) -> None:
        self.tenant = tenant
        self.weight = weight
        self.time = time
        self.waits = False
        self.running = 0
        self.mean_seconds = 0.0
        self.entry = -1
        """Number of its entry in a line that counts; others are out of date."""


class Line:
    """Accounts by their time, then by who came first. Entries out of date stay until they surface.

    A time that has grown since is found as the entry surfaces, one that has shrunk needs a new one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Account]] = []
        self._number = count()
        self.size = 0

    def put(self, account: Account) -> None:
        """Enter it, for the first time."""
        self.size += 1
        self.move(account)

    def move(self, account: Account) -> None:
        """Enter it anew: its time has shrunk."""
        account.entry = next(self._number)
        heappush(self._heap, (account.time, account.entry, account))
        if len(self._heap) > 2 * self.size + SLACK:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].entry]
            heapify(self._heap)

    def drop(self, account: Account) -> None:
        account.entry = -1
        self.size -= 1

    def first(self) -> Account | None:
        """The one whose time is the earliest."""
        heap = self._heap
        while heap:
            time, entry, account = heap[0]
            if entry != account.entry:
                heappop(heap)
            elif time < account.time:
                account.entry = next(self._number)  # behind those who have waited at that time
                heapreplace(heap, (account.time, account.entry, account))
            else:
                return account
        return None


class Turn:
    """What one running task has been charged so far; ended exactly once."""

    __slots__ = ("account", "charged_seconds", "started_at")

    def __init__(self, account: Account, charged_seconds: float, started_at: float) -> None:
        self.account = account
        self.charged_seconds = charged_seconds
        self.started_at = started_at


class Turns:
    """The tenants of one kind in one worker.

    `join` and `leave` say who has tasks waiting, `start` and `end` what runs; ``now`` is seconds on
    one monotonic clock. All but `tick` cost O(log n) of those who wait, on average.
    """

    def __init__(
        self, weight_of: Callable[[Tenant], float] = no_weights, remembered: int = REMEMBERED
    ) -> None:
        self.time = 0.0
        """Where one begins who comes now, in slot-seconds by weight."""
        self._weight_of = weight_of
        self._remembered = remembered
        self._accounts: dict[Tenant, Account] = {}
        self._idle: dict[Tenant, Account] = {}
        """Those who neither wait nor run, the longest idle first."""
        self._line = Line()
        self._weight = 0.0
        """Of those who wait."""
        self._latest = 0.0
        self._mean_seconds = 0.0
        self._running: dict[Turn, None] = {}

    # Who waits.

    def join(self, tenant: Tenant) -> None:
        """Something of a tenant waits. Nobody saves up for later: its time is now, or after it."""
        account = self._account(tenant)
        if account.waits:
            return
        account.waits = True
        account.time = max(account.time, self._now())
        self._weight += account.weight
        self._line.put(account)

    def leave(self, tenant: Tenant) -> None:
        """Nothing of a tenant waits any more."""
        account = self._accounts.get(tenant)
        if account is None or not account.waits:
            return
        account.waits = False
        self._line.drop(account)
        self._weight = self._weight - account.weight if self._line.size else 0.0
        self._rest(account)

    @property
    def waiting(self) -> int:
        """How many tenants have tasks waiting here."""
        return self._line.size

    def next(self) -> Tenant:
        """The tenant whose turn it is, of those who wait: there must be one."""
        account = self._line.first()
        if account is None:
            raise LookupError("nobody waits")
        return account.tenant

    # What runs.

    def start(self, tenant: Tenant, now: float) -> Turn:
        """A task of a tenant starts; it is charged what the last ones have taken."""
        account = self._account(tenant)
        seconds = self._estimate(account)
        begin, end = account.time, account.time + seconds / account.weight
        weight = self._weight if account.waits else self._weight + account.weight
        # As much as all who wait have been served, and never away from where they are: without
        # the former ever new tenants would come before the second task of an old one.
        self.time = min(max(self.time + seconds / weight, begin), end)
        account.running += 1
        turn = Turn(account, seconds, now)
        self._running[turn] = None
        self._charge(account, seconds)
        return turn

    def end(self, turn: Turn, run_seconds: float) -> None:
        """It has ended, however it did; without effect the second time."""
        if self._running.pop(turn, self) is self:
            return
        run_seconds = max(run_seconds, 0.0)
        account = turn.account
        account.running -= 1
        self._charge(account, run_seconds - turn.charged_seconds)
        account.mean_seconds = _mean(account.mean_seconds, run_seconds)
        self._mean_seconds = _mean(self._mean_seconds, run_seconds)
        self._rest(account)

    def tick(self, now: float, *, nobody_waits: bool = False) -> None:
        """Charge for what runs on; a few times a second.

        While nothing of the kind waits, here or at the broker, all are even: what runs then is in
        nobody's way, and nobody is to pay for it later.
        """
        for turn in self._running:
            over = now - turn.started_at - turn.charged_seconds
            if over > 0:
                turn.charged_seconds += over
                self._charge(turn.account, over)
        if nobody_waits and not self._line.size:
            self.time = max(self.time, self._latest)

    # What is known.

    def time_of(self, tenant: Tenant) -> float:
        """The time at which a task of that tenant would be in line; the earliest is next.

        Of tenants elsewhere, as at the head of a queue, too: it changes nothing.
        """
        account = self._accounts.get(tenant)
        if account is None:
            return self._now()
        return account.time if account.waits else max(account.time, self._now())

    def running(self, tenant: Tenant) -> int:
        """How many tasks of a tenant run here."""
        account = self._accounts.get(tenant)
        return 0 if account is None else account.running

    @property
    def accounts(self) -> Collection[Account]:
        """All who are known."""
        return self._accounts.values()

    def _now(self) -> float:
        """The kind's time, no further than one run from those who wait.

        They may have got back what they never used, or have run on while nobody else waited. Not
        nearer: a worker holds few messages, and whoever is alone in that moment isn't so at the
        broker.
        """
        first = self._line.first()
        if first is None:
            return self.time
        run = self._estimate(first) / first.weight
        return max(first.time - run, min(self.time, first.time + run))

    def _estimate(self, account: Account) -> float:
        return account.mean_seconds or self._mean_seconds or FIRST_ESTIMATE_SECONDS

    def _account(self, tenant: Tenant) -> Account:
        account = self._accounts.get(tenant)
        if account is None:
            account = Account(tenant, self._weight_of(tenant), self.time)
            self._accounts[tenant] = account
        elif self._idle:
            self._idle.pop(tenant, None)
        return account

    def _charge(self, account: Account, seconds: float) -> None:
        account.time += seconds / account.weight
        if account.time > self._latest:
            self._latest = account.time
        if seconds < 0 and account.waits:
            self._line.move(account)

    def _rest(self, account: Account) -> None:
        """Remember it, if nothing of it waits or runs, in the place of who has rested longest."""
        if account.waits or account.running:
            return
        self._idle[account.tenant] = account
        if len(self._idle) > self._remembered:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._accounts[oldest]


def _mean(mean: float, seconds: float) -> float:
    newest = NEWEST if mean else 1.0
    return mean + newest * (seconds - mean)
