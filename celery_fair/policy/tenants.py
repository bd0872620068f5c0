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

import math
from collections import OrderedDict
from collections.abc import Collection
from typing import Final, NamedTuple

from celery_fair.policy.fleet import Segment, Stretch
from celery_fair.policy.tenant_line import Account, Line
from celery_fair.policy.tenant_rules import Tenant, TenantRules

REMEMBERED: Final = 4096
"""Tenants that neither wait nor run, of which is known what they have had; the latest."""

FIRST_ESTIMATE_SECONDS: Final = 0.01
"""Charged while nothing has ended yet. Any number makes tenants take turns; by a large one whoever
comes second begins as much later than who came first, which is many tasks if they are short."""

NEWEST: Final = 0.2
"""How much the latest run counts in an estimate of the next."""

PATIENCE_SECONDS: Final = 30.0
"""After so long one may start a task here though its part of the cap is nothing: the workers that
have it may be busy for hours with what lasts that long."""

ALONE: Final = Stretch(Segment(0, 0, 0))
"""The place of a worker that doesn't know its own yet; there are no caps."""


class Standing(NamedTuple):
    """Why it isn't a tenant's turn."""

    others: int
    """So many other tenants wait."""
    ahead_seconds: float
    """What it has had more than the one whose turn it is, in slot-seconds by weight."""
    running: int
    is_capped: bool
    """Whether that is why."""


class Turn:
    """What one running task has been charged so far; ended exactly once."""

    __slots__ = ("account", "charged_seconds", "started_at")
    account: Account
    charged_seconds: float
    started_at: float


class Turns:
    """The tenants of one kind in one worker.

    `join` and `leave` say who has tasks waiting, `start` and `end` what runs; ``now`` is seconds on
    one monotonic clock. All but `tick` cost O(log n) of those who wait, on average. A tenant at its
    cap is next only when nobody else waits: no slot idles for it.
    """

    def __init__(self, rules: TenantRules | None = None, remembered: int = REMEMBERED) -> None:
        self.time = 0.0
        """Where one begins who comes now, in slot-seconds by weight."""
        self._rules = rules or TenantRules()
        self._stretch = ALONE
        self._remembered = remembered
        self._accounts: dict[Tenant, Account] = {}
        self._idle: OrderedDict[Tenant, Account] = OrderedDict()
        """Those who have rested, the longest ago first; of them some are back by now."""
        self._line, self._capped = Line(), Line()
        self._barred = 0
        """So many wait, and have nothing that may start."""
        self._weight = 0.0
        """Of those in line."""
        self._latest = 0.0
        self._ticked_at = -math.inf
        self._mean_seconds = 0.0
        self._running: dict[Turn, None] = {}

    # Who waits.

    def join(self, tenant: Tenant) -> None:
        """Something of a tenant waits. Nobody saves up for later: its time is now, or after it."""
        account = self._accounts.get(tenant) or self._open(tenant)
        if account.line is not None:
            return
        begin = self._now()
        if account.is_barred:
            self._barred -= 1
            begin -= self._run(account)
        if account.time < begin:
            account.time = begin
        self._weight += account.weight
        if account.part is None:
            self._line.put(account)
        else:
            account.joined_at = self._ticked_at
            (self._capped if account.is_capped else self._line).put(account)

    def leave(self, tenant: Tenant) -> None:
        """Nothing of a tenant waits any more."""
        account = self._accounts.get(tenant)
        if account is None or account.line is None:
            return
        line = account.line
        line.size -= 1  # as `Line.drop`
        account.line, account.entry = None, -1
        in_line = self._line.size or self._capped.size
        self._weight = self._weight - account.weight if in_line else 0.0  # no crumbs are left
        if account.is_barred:
            self._barred += 1
        elif not account.running and tenant not in self._idle:
            self._rest(account)

    def bar(self, tenant: Tenant) -> None:
        """Something of a tenant waits that may not start yet, as for a place at a resource.

        It is among those who wait, and is in nobody's way: `next` is one of whom something may
        start. Once that is so of it, it begins a run before whoever comes then. Not where it was
        when it was barred: it would save up what it couldn't use, and have all slots for as long.
        """
        account = self._accounts.get(tenant) or self._open(tenant)
        if not account.is_barred:
            account.is_barred = True
            self._barred += account.line is None

    def unbar(self, tenant: Tenant) -> None:
        """Nothing of a tenant waits so any more."""
        account = self._accounts.get(tenant)
        if account is None or not account.is_barred:
            return
        account.is_barred = False
        if account.line is None:
            self._barred -= 1
            if not account.running:
                self._rest(account)

    @property
    def waiting(self) -> int:
        """How many tenants have tasks waiting here."""
        return self._line.size + self._capped.size + self._barred

    def next(self) -> Tenant:
        """The tenant whose turn it is, of those who wait: there must be one."""
        heap = self._line.heap
        if heap:
            time, entry, account = heap[0]
            if entry == account.entry and time >= account.time:  # as `Line.first` would find it
                return account.tenant
        first = self._line.first() or self._capped.first()
        if first is None:
            raise LookupError("nobody waits")
        return first.tenant

    # What runs.

    def start(self, tenant: Tenant, now: float) -> Turn:
        """A task of a tenant starts; it is charged what the last ones have taken."""
        # On the path of every message: written out here, and in `end`, what others call.
        account = self._accounts.get(tenant) or self._open(tenant)
        seconds = account.mean_seconds or self._mean_seconds or FIRST_ESTIMATE_SECONDS
        own, begin, line = account.weight, account.time, account.line
        end = begin + seconds / own
        # As much as all who wait have been served, and never away from where they are: without
        # the former ever new tenants would come before the second task of an old one.
        time = self.time + seconds / (self._weight if line is not None else self._weight + own)
        self.time = end if time > end else begin if time < begin else time
        account.running += 1
        if account.part is not None:
            account.is_excused, account.joined_at = False, self._ticked_at
            if line is self._line and account.is_capped:
                self._put_into(self._capped, account)
        turn = Turn()
        turn.account, turn.charged_seconds, turn.started_at = account, seconds, now
        self._running[turn] = None
        account.time = end
        if end > self._latest:
            self._latest = end
        return turn

    def end(self, turn: Turn, run_seconds: float) -> None:
        """It has ended, however it did; without effect the second time."""
        if self._running.pop(turn, self) is self:
            return
        if run_seconds < 0.0:
            run_seconds = 0.0
        account = turn.account
        account.running -= 1
        seconds, line = run_seconds - turn.charged_seconds, account.line
        account.time = time = account.time + seconds / account.weight
        if time > self._latest:
            self._latest = time
        own, mean = account.mean_seconds, self._mean_seconds
        account.mean_seconds = own + NEWEST * (run_seconds - own) if own else run_seconds
        self._mean_seconds = mean + NEWEST * (run_seconds - mean) if mean else run_seconds
        if line is None:
            if account.running or account.is_barred:
                return
            tenant, idle = account.tenant, self._idle
            if tenant in idle:
                idle.move_to_end(tenant)
            else:
                self._rest(account)
        elif line is self._capped and not account.is_capped:
            self._put_into(self._line, account)
        elif seconds < 0.0:
            line.move(account)

    def tick(self, now: float, *, nobody_waits: bool = False) -> None:
        """Charge for what runs on; a few times a second.

        While nothing of the kind waits, here or at the broker, all are even: what runs then is in
        nobody's way, and nobody is to pay for it later.
        """
        for turn in self._running:
            over, account = now - turn.started_at - turn.charged_seconds, turn.account
            if over > 0:
                turn.charged_seconds += over
                account.time += over / account.weight
                self._latest = max(self._latest, account.time)
        self._ticked_at = now
        for account in [one for one in self._capped if self._is_overlooked(one)]:
            account.is_excused = True
            self._put_into(self._line, account)
        if nobody_waits and not self.waiting:
            self.time = max(self.time, self._latest)

    # The rules.

    def go_by(self, rules: TenantRules, stretch: Stretch) -> None:
        """Go by these from now on, in a worker that has this place in the fleet's line of slots."""
        if rules == self._rules and (stretch == self._stretch or rules.most is None):
            return
        self._rules, self._stretch = rules, stretch
        for account in self._accounts.values():
            if account.line is not None:
                self._weight -= account.weight
            account.weight = rules.weight(account.tenant)
            if account.part is None:
                account.joined_at = self._ticked_at
            account.part = rules.part(account.tenant, stretch)
            if account.line is not None:
                self._weight += account.weight
                self._put_into(self._capped if account.is_capped else self._line, account)

    # What is known.

    def time_of(self, tenant: Tenant) -> float:
        """The time at which a task of that tenant would be in line; the earliest is next.

        Of tenants elsewhere, as at the head of a queue, too: it changes nothing.
        """
        account = self._accounts.get(tenant)
        if account is None:
            return self._now()
        return account.time if account.line is not None else max(account.time, self._now())

    def order_of(self, tenant: Tenant) -> tuple[bool, float]:
        """The same with caps: sorted by it, tenants are in the order in which they are next."""
        account = self._accounts.get(tenant)
        capped = (account or self._new(tenant)).is_capped
        return capped, self.time_of(tenant)

    def place_of(self, tenant: Tenant, before: int) -> tuple[bool, float]:
        """The same of the task behind so many others of its tenant."""
        capped, time = self.order_of(tenant)
        account = self._accounts.get(tenant)
        if account is None:
            return capped, time
        return capped, time + before * self._run(account)

    def standing(self, tenant: Tenant) -> Standing | None:
        """What stands before a tenant that waits; ``None`` if it is its turn."""
        account = self._accounts.get(tenant)
        first = self._line.first() or self._capped.first()
        if account is None or first is None or first is account:
            return None
        ahead = max(account.time - first.time, 0.0)
        return Standing(self.waiting - 1, ahead, account.running, account.is_capped)

    @property
    def accounts(self) -> Collection[Account]:
        """All who are known."""
        return self._accounts.values()

    def _is_overlooked(self, account: Account) -> bool:
        return not account.running and self._ticked_at - account.joined_at >= PATIENCE_SECONDS

    def _now(self) -> float:
        """The kind's time, no further than one run from those who wait.

        They may have got back what they never used, or have run on while nobody else waited. Not
        nearer: a worker holds few messages, and whoever is alone in that moment isn't so at the
        broker.
        """
        time, first = self.time, self._line.first()
        if first is None:
            return time
        # As `_run`: on the path of every message of a tenant that has nothing else here.
        seconds = first.mean_seconds or self._mean_seconds or FIRST_ESTIMATE_SECONDS
        ahead, run = time - first.time, seconds / first.weight
        return time if -run <= ahead <= run else first.time + (run if ahead > 0.0 else -run)

    def _run(self, account: Account) -> float:
        """By how much a tenant's time goes on with one task."""
        return (
            account.mean_seconds or self._mean_seconds or FIRST_ESTIMATE_SECONDS
        ) / account.weight

    def _open(self, tenant: Tenant) -> Account:
        account = self._accounts[tenant] = self._new(tenant)
        return account

    def _new(self, tenant: Tenant) -> Account:
        rules = self._rules
        return Account(tenant, rules.weight(tenant), rules.part(tenant, self._stretch), self.time)

    def _put_into(self, line: Line, account: Account) -> None:
        if account.line is not None:
            account.line.drop(account)
        line.put(account)

    def _rest(self, account: Account) -> None:
        """Remember one that neither waits nor runs, and forget who has rested for longest."""
        idle = self._idle
        idle[account.tenant] = account
        idle.move_to_end(account.tenant)
        while len(idle) > self._remembered:
            tenant, oldest = idle.popitem(last=False)
            if oldest.line is None and not (oldest.running or oldest.is_barred):
                del self._accounts[tenant]
