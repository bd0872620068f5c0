"""One resource as the model keeps it: who holds it and waits for it, and what is left of it.

`celery_fair.resources.scripts` does the same in Redis, number by number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from celery_fair.policy.aimd import Pace
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.rules import Resource, lowered
from celery_fair.resources.store import RENEW_SECONDS, Short

FIRST_MEAN_SECONDS: Final = 1.0
"""How long a batch task is thought to hold a place before any has given one back."""

OWED_SECONDS: Final = 60.0
"""Batch needn't be owed more of a place than that: one task of a day would else make it wait for
hours. What long ones take beyond what was owed is owed by batch then, and waited off.
"""

MEAN_WEIGHT: Final = 0.2
FORGET_SECONDS: Final = 5.0
"""What batch is owed fades in this time once it doesn't wait any more."""

DEBT_SECONDS: Final = 3600.0
"""A charge by mistake, of a billion tokens say, makes all wait for so long at the most."""

REQUESTS: Final = 0
TOKENS: Final = 1


@dataclass(slots=True)
class Draft:
    """What others, who come first, are about to take in one walk along the lines."""

    places: int = 0
    batch: int = 0
    used: list[float] = field(default_factory=lambda: [0.0, 0.0])


@dataclass(slots=True)
class Shared:
    """Times in seconds: ``at`` of the clock that bounds leases, ``spent_at`` of the budgets'."""

    at: float
    spent_at: float
    running: dict[Kind, int] = field(default_factory=lambda: {INTERACTIVE: 0, BATCH: 0})
    waiting: dict[Kind, int] = field(default_factory=lambda: {INTERACTIVE: 0, BATCH: 0})
    left: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Requests and tokens; negative after more was used than estimated. Nothing at the start."""
    owed: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """To batch: place-seconds, requests, tokens."""
    mean: float | None = None
    """How long batch tasks hold a place, in seconds."""
    pace: Pace = field(default_factory=Pace)

    @property
    def mean_seconds(self) -> float:
        return FIRST_MEAN_SECONDS if self.mean is None else self.mean

    @property
    def time(self) -> tuple[float, float]:
        """How far it has come on both clocks."""
        return self.at, self.spent_at

    @property
    def total(self) -> int:
        return self.running[INTERACTIVE] + self.running[BATCH]

    # -- time ------------------------------------------------------------------------------------

    def advance(self, rule: Resource, at: float, spent_at: float) -> None:
        """Let the time pass until now, on both clocks."""
        elapsed, self.at = at - self.at, at
        spent, self.spent_at = spent_at - self.spent_at, spent_at
        self.pace = self.pace.later(spent_at)
        for budget, per_second in enumerate(rule.budgets):
            if per_second is not None:
                self.put(rule, budget, per_second * self.pace.rate * spent)
        self._owe(rule, elapsed)

    def _owe(self, rule: Resource, elapsed: float) -> None:
        if not self.waiting[BATCH]:
            kept = max(1.0 - elapsed / FORGET_SECONDS, 0.0)
            self.owed = [owed * kept for owed in self.owed]
            return
        share, places = rule.batch_share, lowered(rule, self.pace.rate)
        if places is not None:
            due = (share * places - self.running[BATCH]) * elapsed
            most = 2.0 * self.mean_seconds * self._ceiling(rule)
            self.owed[0] = min(max(self.owed[0] + due, -self.mean_seconds), most)
        for budget, per_second in enumerate(rule.budgets):
            if per_second is not None:
                self._lend(rule, budget, share * per_second * self.pace.rate * elapsed)

    def _lend(self, rule: Resource, budget: int, more: float) -> None:
        most = rule.most[budget]
        self.owed[1 + budget] = min(max(self.owed[1 + budget] + more, -most), most)

    def put(self, rule: Resource, budget: int, more: float) -> None:
        """Give a budget back what was not used; it never has more than a burst.

        That is lowered with the rate, else all that was saved up would come at once as soon as the
        resource serves again. Nor does it owe more than what comes in `DEBT_SECONDS`.
        """
        least = -DEBT_SECONDS * (rule.budgets[budget] or 0.0)
        most = rule.most[budget] * self.pace.rate
        self.left[budget] = max(min(self.left[budget] + more, most), least)

    def slow_down(self, rule: Resource, retry_after_seconds: float | None) -> None:
        """It has refused."""
        self.pace = self.pace.refused(self.spent_at, retry_after_seconds)
        for budget, per_second in enumerate(rule.budgets):
            if per_second is not None:
                self.put(rule, budget, 0.0)

    def _ceiling(self, rule: Resource) -> int:
        """How many places batch may have that is owed them."""
        places = lowered(rule, self.pace.rate) or 0
        return math.ceil(places * rule.batch_share - 1e-9)

    # -- who may have it -------------------------------------------------------------------------

    def owes(self, rule: Resource, tokens: int, draft: Draft) -> bool:
        """Whether batch is owed what a task of it needs, in all that is bounded."""
        if self.pace.is_shut(self.spent_at):
            return False
        if rule.max_running is not None and (
            self.owed[0] < min(self.mean_seconds, OWED_SECONDS)
            or self.running[BATCH] + draft.batch >= self._ceiling(rule)
        ):
            return False
        for budget, need in enumerate((1.0, float(tokens))):
            if rule.budgets[budget] is not None and need > 0.0:
                most = rule.most[budget]
                if self.owed[1 + budget] - draft.used[budget] < min(need, most):
                    return False
        return True

    def shuts_out(self, kind: Kind) -> tuple[Short, float] | None:
        """Return for how long batch gets nothing, since the resource has refused."""
        if kind == BATCH and self.pace.is_shut(self.spent_at):
            return Short.SLOWED, self.pace.shut_until - self.spent_at
        return None

    def lacks(
        self, rule: Resource, kind: Kind, tokens: int, draft: Draft, *, owed: bool
    ) -> tuple[Short, float] | None:
        """Return what a task lacks and when to ask again, in seconds; None if it may have all."""
        keeps = kind == BATCH and not owed
        short = self._lacks_place(rule, draft, keeps=keeps)
        if short is not None:
            return short, RENEW_SECONDS
        for budget, need in enumerate((1.0, float(tokens))):
            per_second = rule.budgets[budget]
            if per_second is not None and need > 0.0:
                most = rule.most[budget] * self.pace.rate
                kept = rule.interactive_reserve * most if keeps else 0.0
                missing = min(need + kept, most) - (self.left[budget] - draft.used[budget])
                if missing > 0.0:
                    word = Short.REQUESTS if budget == REQUESTS else Short.TOKENS
                    return word, missing / (per_second * self.pace.rate)
        return None

    def _lacks_place(self, rule: Resource, draft: Draft, *, keeps: bool) -> Short | None:
        places = lowered(rule, self.pace.rate)
        if places is None:
            return None
        free = places - self.total - draft.places
        if free < 1:
            if self.total + 1 <= places:
                return Short.IN_LINE
            full = self.total + 1 > (rule.max_running or 0)
            return Short.RUNNING if full else Short.SLOWED
        reserved = min(rule.reserved_places, places - 1)
        return Short.RESERVED if keeps and free <= reserved else None

    # -- taking and giving back ------------------------------------------------------------------

    def hold(self, kind: Kind) -> None:
        self.running[kind] += 1

    def spend(self, rule: Resource, kind: Kind, tokens: int) -> None:
        """Charge what a task is thought to use."""
        for budget, need in enumerate((1.0, float(tokens))):
            if rule.budgets[budget] is not None:
                self.put(rule, budget, -need)
                if kind == BATCH:
                    self._lend(rule, budget, -need)

    def unspend(self, rule: Resource, kind: Kind, tokens: int) -> None:
        """Give back what was charged for a task that never ran."""
        for budget, need in enumerate((1.0, float(tokens))):
            if rule.budgets[budget] is not None:
                self.put(rule, budget, need)
                if kind == BATCH:
                    self._lend(rule, budget, need)

    def release(self, kind: Kind, held_seconds: float | None) -> None:
        """Take a place back; ``held_seconds`` is None for a task that never ran."""
        self.running[kind] -= 1
        if kind == BATCH and held_seconds is not None:
            mean = self.mean
            self.mean = held_seconds if mean is None else mean + (held_seconds - mean) * MEAN_WEIGHT
