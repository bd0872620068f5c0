"""A snapshot of the policy, for status commands, metrics and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from celery_fair.policy.gate import Cause
from celery_fair.policy.load import Mode


@dataclass(frozen=True, slots=True)
class PolicyView:
    """What the policy knows and allows now. Times are the caller's clock, durations seconds.

    ``reserve``, ``batch_ceiling`` and ``owed_ceiling`` are this worker's part; ``fleet_reserve`` is
    the sum. ``share_received`` is the part of slot-seconds that batch got over the last minutes
    in which both kinds wanted slots, ``None`` if there were none.
    """

    mode: Mode
    mode_since: float
    mode_cause: Cause | None
    mode_reason: str
    mode_changes: Mapping[tuple[Mode, Cause], int]
    mode_seconds: Mapping[Mode, float]
    slots: int
    running_interactive: int
    running_batch: int
    reserve: int
    fleet_reserve: int
    batch_ceiling: int
    owed_ceiling: int
    debt_seconds: float
    batch_owed: bool
    share: float
    share_received: float | None
    interactive_mean_seconds: float
    batch_mean_seconds: float
    interactive_rate: float
    last_batch_start: float | None
    blind: bool
    engine_queueing: bool
    engine_pressure: float | None
    fleet_workers: int
    fleet_slots: int
    fleet_in_sight: bool
