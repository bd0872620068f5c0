"""How many slots are kept free for the next interactive tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from celery_fair.policy.settings import PolicySettings

_COLD_SECONDS = 60.0
_MEMORY_SECONDS = 60.0
_FALL_SECONDS = 5.0
_USUAL_SECONDS = 5.0
_TWICE = 2.0
_MARGIN = 1.15
"""On the mean of running interactive tasks: as many slots as tasks would never catch up."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the reserve is computed from; the fleet's sums where there is a fleet.

    Means are seconds, the age of a running task if that is longer, 0 if unknown.
    """

    slots: int
    interactive_rate: float
    interactive_seconds: float
    batch_seconds: float
    batch_running: int
    batch_finished: int
    yields_per_second: float = 0.0
    """How many slots batch could give back a second; 0 where some of its tasks can't be asked."""
    slot_back_seconds: float = 0.0
    """How long that takes, as far as it is known."""


class Reserve:
    """A number, or the smallest reserve with which few interactive tasks find no slot.

    ``auto``: interactive tasks that come before there is headroom again are taken to be Poisson
    with mean ``rate * tau``; ``tau`` is the time until a slot frees by itself, less the wait that
    is acceptable. It rises at once and falls slowly, since rising is too late when the slots have
    just been taken for ten minutes. After a start it is half of the slots until batch is known.
    """

    __slots__ = (
        "_batch_since",
        "_needed_at",
        "_peak",
        "_peak_at",
        "_running",
        "_running_at",
        "_running_weight",
        "_settings",
        "value",
        "warm",
    )

    def __init__(self, settings: PolicySettings, now: float) -> None:
        self._settings = settings
        self._batch_since: float | None = None
        self._needed_at = now
        self._peak = 0.0
        self._peak_at = now
        self._running = self._running_weight = 0.0
        self._running_at = now
        self.warm = False
        self.value = 0

    def reconfigure(self, settings: PolicySettings) -> None:
        """Go by other numbers from the next update on; what is known of the traffic stays."""
        self._settings = settings

    def memory_seconds(self, batch_seconds: float) -> float:
        """Over how long the arrival rate is to be measured."""
        return max(_MEMORY_SECONDS, 3 * batch_seconds)

    def update(self, traffic: Traffic, now: float) -> int:
        """Return the reserve for this traffic, fallen by one slot at most."""
        fixed = self._settings.reserve
        if fixed != "auto":
            self.value = self._settings.clamped_reserve(traffic.slots, fixed)
            return self.value
        limit = self._settings.clamped_reserve(traffic.slots, traffic.slots // 2)
        if not self.warm and self._is_cold(traffic, now):
            self._see_peak(traffic, now)
            self.value = limit
        else:
            wanted = min(max(self._wanted(traffic, now, limit), self._floor(traffic)), limit)
            self._approach(wanted, limit, traffic.batch_seconds, now)
            self.warm = True
        return self.value

    def see_running(self, interactive: int, batch_seconds: float, now: float) -> None:
        """Average the interactive tasks that run, over about as long as a batch task takes."""
        memory = min(max(batch_seconds or _MEMORY_SECONDS, _USUAL_SECONDS), _MEMORY_SECONDS)
        kept = math.exp(-max(now - self._running_at, 0.0) / memory)
        self._running = self._running * kept + interactive * (1 - kept)
        self._running_weight = self._running_weight * kept + (1 - kept)
        self._running_at = now

    def usual(self, traffic: Traffic) -> int:
        """Interactive tasks that run on average, beyond those that the reserve accounts for.

        Short ones come and go: where four of 50 ms run on average, none does a few times a second,
        and batch of ten minutes that took such moments for room would have all slots but the
        reserve. (Long ones are in the Poisson estimate: arrivals within their own run time.)
        """
        if self._settings.reserve != "auto" or traffic.slots < 2 or self._is_tiny(traffic):
            return 0
        if self._gives_way(traffic):
            return 0
        mean = self._running / self._running_weight if self._running_weight else 0.0
        return max(0, int(_MARGIN * mean + 0.5) - max(self.value - self._floor(traffic), 0))

    def _gives_way(self, traffic: Traffic) -> bool:
        """Whether running batch is as good as a reserve: a slot is had within the accepted wait.

        And twice as often as interactive tasks come: one that has just started can't be asked yet.
        """
        often = traffic.yields_per_second >= max(_TWICE * traffic.interactive_rate, 1e-9)
        return often and traffic.slot_back_seconds <= self._accepted_seconds(traffic)

    def _is_cold(self, traffic: Traffic, now: float) -> bool:
        if self._gives_way(traffic):
            return False
        if self._batch_since is None:
            if not traffic.batch_running and not traffic.batch_finished:
                return True
            self._batch_since = now
        known = traffic.batch_finished >= traffic.slots
        return not known and now - self._batch_since < _COLD_SECONDS

    def _approach(self, wanted: int, limit: int, batch_seconds: float, now: float) -> None:
        if wanted >= self.value or not self.warm or self.value > limit:
            self.value = wanted
            self._needed_at = now
        elif now - self._needed_at >= max(_FALL_SECONDS, batch_seconds):
            self.value -= 1
            self._needed_at = now

    def _floor(self, traffic: Traffic) -> int:
        if traffic.slots < 2 or self._is_tiny(traffic) or self._gives_way(traffic):
            return 0
        return self._settings.reserve_min

    def _is_tiny(self, traffic: Traffic) -> bool:
        # Batch so short that its slots come back within the lookahead makes nobody wait. The age of
        # the first ones says nothing: all tasks are young when they begin.
        return (
            traffic.batch_finished > 0
            and 0 < traffic.batch_seconds <= self._settings.lookahead_seconds
        )

    def _see_peak(self, traffic: Traffic, now: float) -> float:
        decay = max(10 * traffic.batch_seconds, 1e-3)
        self._peak *= math.exp(-(now - self._peak_at) / decay)
        self._peak_at = now
        self._peak = max(self._peak, traffic.interactive_rate)
        return self._peak

    def _wanted(self, traffic: Traffic, now: float, limit: int) -> int:
        rate = self._see_peak(traffic, now)
        if self._gives_way(traffic):
            return 0
        seconds = headroom = traffic.interactive_seconds
        if traffic.batch_seconds > 0:
            headroom = min(seconds, traffic.batch_seconds / max(traffic.batch_running, 1))
        mean = rate * max(0.0, headroom - self._accepted_seconds(traffic))
        return poisson_quantile(mean, self._settings.reserve_target, limit)

    def _accepted_seconds(self, traffic: Traffic) -> float:
        accepted = self._settings.reserve_wait_seconds
        return max(0.1, traffic.interactive_seconds / 4) if accepted is None else accepted


def poisson_quantile(mean: float, target: float, limit: int) -> int:
    """The smallest ``n <= limit`` that a Poisson variable exceeds no oftener than ``target``."""
    term = math.exp(-mean)
    below = term
    n = 0
    while n < limit and 1 - below > target:
        n += 1
        term *= mean / n
        below += term
    return n
