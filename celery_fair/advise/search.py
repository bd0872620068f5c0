"""The cheapest settings that meet what was asked for: fewest slots first, then fewest changes.

More slots are never worse, so their number is found by bisection, from the formula's guess on. For
a number of slots and a share, more reserve is better for interactive tasks and worse for batch: the
least reserve with which waits are met is what leaves batch the most, and no other need be tried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from celery_fair.advise.load import Load
from celery_fair.advise.measure import Candidate, Run, run
from celery_fair.advise.targets import Target, Wait
from celery_fair.advise.verdict import LEAST_SEEDS, Verdict, is_settled, judge, missed_by
from celery_fair.policy import PolicySettings

SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_SOME_MORE: Final = 1.02
PIECES: Final = (300.0, 120.0, 60.0, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2)
"""Seconds between two places at which batch can yield: those that are tried."""
SEEDS: Final = 5
_PLAIN: Final = 2.0
"""One seed that is as far as this from a wait's bound is enough to go on with the search."""


class OutOfTimeError(Exception):
    """The search has used up what it may."""


@dataclass(slots=True)
class Effort:
    """How much is simulated, in seconds of a usual core: the same on any machine.

    ``patience`` is what the process may really use, where a machine is slower than usual.
    """

    limit: float
    patience: float
    used: float = 0.0
    runs: int = 0
    began: float = 0.0
    step: Callable[[float], None] = lambda part: None

    def take(self, seconds: float) -> None:
        """Use so much; raise `OutOfTimeError` if it is not to be had."""
        late = time.process_time() - self.began > self.patience
        if self.runs >= LEAST_SEEDS and (late or self.used + seconds > self.limit):
            raise OutOfTimeError  # what today's settings come to is told in any case
        self.used += seconds
        self.runs += 1
        self.step(self.used)


class Search:
    """Tries settings on a load, each at most once."""

    def __init__(
        self, load: Load, targets: Sequence[Target], today: Candidate, effort: Effort,
        margin: float, cost: float, first_seed: int = 1,
    ) -> None:  # fmt: skip
        self.load, self.targets, self.today = load, tuple(targets), today
        self.margin = margin
        self.effort = effort
        self._cost = cost
        self._seed = first_seed
        self._runs: dict[Candidate, list[Run]] = {}
        self.best: Verdict | None = None
        """The fewest slots that were enough in the latest search, should it be cut short."""
        self.failed: dict[tuple[int, float], Verdict] = {}
        """Of slots and pieces that were given up, the settings that came nearest."""

    def verdict(
        self, candidate: Candidate, seeds: int = SEEDS, *, all_seeds: bool = False
    ) -> Verdict:
        """What these settings come to, with as many seeds as it takes to know."""
        runs = self._runs.setdefault(candidate, [])
        while True:
            if runs:
                found = judge(candidate, self.targets, runs, self.margin)
                if len(runs) >= seeds or (not all_seeds and is_settled(found, seeds, self.margin)):
                    return found
            self.effort.take(self._cost)
            runs.append(run(self.load, candidate, self._seed + len(runs)))

    def known(self, candidate: Candidate) -> Verdict | None:
        """What the runs come to that there have been: more of them than when it was first told."""
        runs = self._runs.get(candidate)
        return judge(candidate, self.targets, runs, self.margin) if runs else None

    def settings_for(self, slots: int, yields_every: float) -> Verdict | None:
        """Settings with which so many slots are enough, those that change least before others."""
        tried = []
        for settings in self._as_they_are(slots):
            tried.append(self.verdict(Candidate(slots, settings, yields_every)))
            if tried[-1].meets():
                return tried[-1]
        low, high = 0.0, 1.0
        for share in self._shares():
            bare = replace(self.today.settings, batch_share=share, reserve=0)
            if not low < share < high or not self.fits(slots, bare):
                continue
            found = self._least_reserve(slots, share, yields_every)
            tried.append(found)
            if found.meets():
                return found
            if found.candidate.settings.reserve == self._most_reserve(slots, share):
                high = share  # all that can be kept free is too little: batch has too much
            elif self._more_share_helps(found.candidate):
                low = share
            else:
                break
        if tried:
            self.failed[slots, yields_every] = min(tried, key=_nearness)
        return None

    def fewest_slots(self, guess: int, low: int, high: int, yields_every: float) -> Verdict | None:
        """The fewest slots from ``low`` to ``high`` that are enough, with their settings."""
        self.best = None
        at, step, failed = min(max(guess, low), high), 1, False
        while low <= high:
            found = self.settings_for(at, yields_every)
            if found is not None:
                self.best, high = found, at - 1
            else:
                failed, low = True, at + 1
            if self.best is not None and failed:
                at = (low + high) // 2
            else:  # farther with each step, until there is one of either
                at = max(at - step, low) if self.best is not None else min(at + step, high)
            step *= 2
        return self.best

    def longest_piece(self, slots: int, least: float, below: float) -> Verdict | None:
        """The longest time between yields with which so many slots are enough."""
        pieces = [one for one in PIECES if least <= one < below]
        best = None
        low, high = 0, len(pieces) - 1
        while low <= high:
            middle = (low + high) // 2
            found = self.settings_for(slots, pieces[middle])
            if found is not None:
                best, high = found, middle - 1
            else:
                low = middle + 1
        return best

    def fits(self, slots: int, settings: PolicySettings) -> bool:
        """Whether a worker would take these settings."""
        aged, engine = settings.aged_share, settings.engine_batch_share
        if aged is not None and settings.batch_share > aged:
            return False
        if engine is not None and settings.batch_share < engine:
            return False
        try:
            settings.check(slots * self.load.scenario.workers)
        except ValueError:
            return False
        return True

    def _as_they_are(self, slots: int) -> Iterator[PolicySettings]:
        today = self.today.settings
        for one in dict.fromkeys([today, replace(today, reserve="auto")]):
            if self.fits(slots, one):
                yield one

    def _shares(self) -> list[float]:
        """Today's, then those next to it."""
        today = self.today.settings.batch_share
        others = sorted(set(SHARES) - {today}, key=lambda share: abs(math.log(share / today)))
        return [today, *others]

    def _more_share_helps(self, candidate: Candidate) -> bool:
        """Whether batch has more of the greatest share: it does where interactive fills slots."""
        total = candidate.slots * self.load.scenario.workers
        settings = replace(candidate.settings, batch_share=SHARES[-1])
        reserve = min(int(settings.reserve), total - settings.guaranteed(total))
        settings = replace(settings, reserve=reserve)
        if not self.fits(candidate.slots, settings):
            return False
        self.verdict(replace(candidate, settings=settings), 1)
        more = self._runs[replace(candidate, settings=settings)][0].batch_slots
        return more > self._runs[candidate][0].batch_slots * _SOME_MORE

    def _least_reserve(self, slots: int, share: float, yields_every: float) -> Verdict:
        """With the least reserve with which waits are met, or with the most there can be."""

        def at(reserve: int) -> Candidate:
            settings = replace(self.today.settings, reserve=reserve, batch_share=share)
            return Candidate(slots, settings, yields_every)

        low, high = 0, self._most_reserve(slots, share)
        most = high
        if not self._waits_are_met(at(high)):
            return self.verdict(at(high))
        while low < high:
            middle = (low + high) // 2
            if self._waits_are_met(at(middle)):
                high = middle
            else:
                low = middle + 1
        found = self.verdict(at(high))
        while high < most and not self._waits_are_met(at(high), surely=True):
            high += 1
            found = self.verdict(at(high))
        return found

    def _most_reserve(self, slots: int, share: float) -> int:
        total = slots * self.load.scenario.workers
        return total - self.today.settings.guaranteed(total, share)

    def _waits_are_met(self, candidate: Candidate, *, surely: bool = False) -> bool:
        """As far as a few seeds tell, and one where it is far from the bound."""
        if not any(isinstance(one, Wait) for one in self.targets):
            return True
        for seeds in range(1, LEAST_SEEDS + 1):
            found = self.verdict(candidate, seeds, all_seeds=True)
            by = max(
                missed_by(one.target, one.value.mean)
                for one in found.readings
                if isinstance(one.target, Wait)
            )
            if by > _PLAIN or (by < 1 / _PLAIN and not surely):
                return by < 1
        return found.meets(Wait)


def _nearness(verdict: Verdict) -> float:
    worst = verdict.worst
    return missed_by(worst.target, worst.value.mean)
