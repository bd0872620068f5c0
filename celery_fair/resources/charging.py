"""What a task says as it runs: how much it has really used, and that a resource has refused it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from celery_fair.errors import BadOption, StateAway, did_you_mean
from celery_fair.headers import MAX_COUNT
from celery_fair.resources.rules import OF_KIND

if TYPE_CHECKING:
    from celery_fair.app import Fair

LEASE: Final = "fair_lease"
"""Where a running task finds its lease: in ``request.delivery_info``, which no retry copies."""

WANT: Final = "fair_want"
"""The same of what the lease holds: its kind, names and tokens. That is what was charged."""

#: An attribute of a running request: of which resources its estimate has been replaced.
SETTLED: Final = "_fair_settled"


class Charging:
    """For one app; what it does without Redis is nothing, as no task must fail for it."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair

    @property
    def _is_set(self) -> bool:
        return self._fair.settings.enabled and self._fair.resources.is_set

    def charge(self, resource: str | None, tokens: int | None, requests: int | None) -> None:
        """Take what was used from budgets, less what was charged when the task started."""
        _check_number("charge(tokens=…)", tokens)
        _check_number("charge(requests=…)", requests)
        if not self._is_set:
            return
        for name in self._names(resource, "charge(resource)"):
            beyond = [
                self._beyond(name, "requests", requests),
                self._beyond(name, "tokens", tokens),
            ]
            if any(beyond):
                with suppress(StateAway):
                    self._fair.resources.store.charge(name, beyond[1], beyond[0])

    def slow_down(self, resource: str | None, retry_after: float | None) -> None:
        """Say that a resource has refused: less of it from now on, and batch first."""
        if retry_after is not None:
            retry_after = known_seconds(retry_after, "slow_down(retry_after=…)")
        if not self._is_set:
            return
        for name in self._names(resource, "slow_down(resource)"):
            with suppress(StateAway):
                self._fair.resources.store.slow_down(name, retry_after)

    def names_of_running(self) -> Sequence[str] | None:
        """Return what the running task uses, the limits of kinds left out; None outside of one."""
        task = self._fair.app.current_worker_task
        if task is None:
            return None
        found = self._fair.resources.using.names_of(task.name, task)
        return [name for name in found if not name.startswith(OF_KIND)]

    def _names(self, resource: str | None, where: str) -> Sequence[str]:
        rules = self._fair.resources.rules
        if resource is None:
            names = self.names_of_running()
            if names is None:
                raise BadOption(where, "the name of a resource, as no task runs here", None)
            return names
        if resource not in rules:
            hint = did_you_mean(resource, rules) if isinstance(resource, str) else ""
            raise BadOption(where, f"one of {', '.join(sorted(rules))}{hint}", resource)
        return [resource]

    def _beyond(self, name: str, budget: str, used: int | None) -> int:
        """Return what is to be charged: the first that a task says replaces its estimate."""
        rule = self._fair.resources.rules[name]
        bound = rule.requests_per_minute if budget == "requests" else rule.tokens_per_minute
        if used is None or bound is None:
            return 0
        task = self._fair.app.current_worker_task
        request = None if task is None else task.request
        charged = None if request is None else (request.delivery_info or {}).get(WANT)
        if charged is None:
            return used
        _, names, estimate = charged
        settled = request.__dict__.setdefault(SETTLED, set())
        if name not in names or (name, budget) in settled:
            return used
        settled.add((name, budget))
        return used - (1 if budget == "requests" else int(estimate))


def known_seconds(seconds: Any, where: str) -> float:
    """Return a time to stay away, in seconds; raises `BadOption` naming ``where`` it was said."""
    good = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if good and math.isfinite(seconds) and seconds >= 0:
        return float(seconds)
    raise BadOption(where, "seconds from 0, or none", seconds)


def _check_number(where: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= MAX_COUNT:
        raise BadOption(where, f"a whole number below {MAX_COUNT}, below 0 to give back", value)
