"""Settings by which a worker divides its slots, and asks its broker for messages."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import NonNegativeInt, ValidationInfo, field_validator

from celery_fair.settings.fields import Seconds, Settings, setting

#: A sensor that reads more often than this would be felt by the broker.
MAX_READS_PER_SECOND: Final = 4


class SchedulingSettings(Settings):
    """How slots are divided, and how much is fetched and held; most of it is the policy's."""

    batch_share: float = setting(0.2, "a share in (0, 0.5]", "0.1 to 0.3 is usual", gt=0.0, le=0.5)
    aged_share: float | None = setting(
        None,
        "a share from batch_share to 0.5, or none",
        "none means twice batch_share, 0.5 at most",
        gt=0.0,
        le=0.5,
    )
    share_unit: Literal["seconds", "tasks"] = setting(
        "seconds", "'seconds' or 'tasks'", "'seconds' shares slot time, 'tasks' takes turns"
    )
    reserve: NonNegativeInt | Literal["auto"] = setting(
        "auto", "a number of slots from 0, or 'auto'", "'auto' follows the load"
    )
    reserve_min: int = setting(
        1, "a number of slots from 0", "1 keeps a slot free wherever there are two", ge=0
    )
    reserve_target: float = setting(
        0.05,
        "a probability in (0, 1)",
        "0.05 lets one interactive task in twenty find no free slot",
        gt=0.0,
        lt=1.0,
    )
    reserve_wait_seconds: Seconds | None = setting(
        None,
        "seconds from 0, or none",
        "none means a quarter of an interactive task's run time, at least 0.1",
        ge=0.0,
    )
    batch_max_slots: int | None = setting(
        None, "a number of slots from 1, or none", "none sets no hard ceiling", ge=1
    )
    interactive_max_slots: int | None = setting(
        None, "a number of slots from 1, or none", "none sets no hard ceiling", ge=1
    )
    protect_backlog: int = setting(
        10, "a number of tasks from 0", "10 waiting interactive tasks close the gate", ge=0
    )
    protect_wait_seconds: Seconds = setting(
        0.3,
        "seconds from 0.05",
        "0.2 to 0.5 is usual; under 0.05 the gate would follow noise",
        ge=0.05,
    )
    protect_hold_seconds: Seconds = setting(
        0.25, "seconds from 0", "0.25 keeps the gate from fluttering", ge=0.0
    )
    batch_max_wait_seconds: Seconds | None = setting(
        None, "seconds over 0, or none", "none means that batch doesn't age", gt=0.0
    )
    lookahead_seconds: Seconds = setting(
        0.05, "seconds from 0", "0.05 covers a round trip to the broker", ge=0.0
    )
    sensor_interval_seconds: Seconds = setting(
        0.25,
        f"seconds from {1 / MAX_READS_PER_SECOND}",
        f"a worker reads its broker at most {MAX_READS_PER_SECOND} times a second",
        ge=1 / MAX_READS_PER_SECOND,
    )
    hold_max_seconds: Seconds = setting(
        30.0,
        "seconds from 1",
        "stay well under the broker's visibility or consumer timeout",
        ge=1.0,
    )

    @field_validator("aged_share")
    @classmethod
    def _aging_lifts(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and value < info.data.get("batch_share", 0.0):
            raise ValueError
        return value
