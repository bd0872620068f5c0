"""Settings that bound what one task may do: wait, run, retry, give way, and be published at all."""

from __future__ import annotations

from collections.abc import Mapping

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.settings.fields import Seconds, Settings, setting


class TaskSettings(Settings):
    """How long a task may wait and run, how often it comes again, and when it is refused."""

    front_queues: bool = setting(
        True,
        "true or false",
        "false sends nothing more to the front of a queue; workers still consume what is there",
    )

    batch_retry_max_seconds: Seconds = setting(
        600.0,
        "seconds over 0",
        "the delay of a batch task's retries doubles up to it; a longer default_retry_delay stays",
        gt=0.0,
    )
    batch_retry_budget: float | None = setting(
        0.2,
        "a part of first attempts in (0, 1], or none",
        "0.2 lets one batch task in six be a retry, none lets all that fail run again",
        gt=0.0,
        le=1.0,
    )

    yield_min_seconds: Seconds = setting(
        1.0,
        "seconds from 0.1",
        "a batch task is asked to yield only after it has run for so long",
        ge=0.1,
    )
    yield_max_overhead: float = setting(
        0.05,
        "a part of run time in (0, 1]",
        "0.05 asks a task that takes 1 s to set up only after 20 s",
        gt=0.0,
        le=1.0,
    )

    interactive_timeout_seconds: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "3 to 5 is usual; a task that has waited for longer fails with QueueTimeout, and isn't run",
        gt=0.0,
    )
    batch_timeout_seconds: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "600 is usual; a task that has waited for longer fails with QueueTimeout, and isn't run",
        gt=0.0,
    )
    interactive_time_limit: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "a task's own time_limit beats it; none leaves Celery's task_time_limit",
        gt=0.0,
    )
    batch_time_limit: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "a task's own time_limit beats it; none leaves Celery's task_time_limit",
        gt=0.0,
    )

    interactive_max_backlog: int | None = setting(
        None,
        "a number of tasks from 1, or none",
        "while so many wait, publishing one more raises QueueFull; none refuses nothing",
        ge=1,
    )
    batch_max_backlog: int | None = setting(
        None,
        "a number of tasks from 1, or none",
        "while so many wait, publishing one more raises QueueFull; none refuses nothing",
        ge=1,
    )
    interactive_max_wait_seconds: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "publishing what would wait for longer, by what workers report, raises QueueFull; none "
        "refuses nothing",
        gt=0.0,
    )

    deduplicate_seconds: Seconds | None = setting(
        None,
        "seconds over 0, or none",
        "a request that is sent again runs once, and for so long after it the same result answers; "
        "none runs it each time",
        gt=0.0,
    )
    state_url: str | None = setting(
        None,
        "the URL of a Redis, or none",
        "none keeps state in the broker if it is a Redis, else in the result backend",
        min_length=1,
    )

    @property
    def timeouts(self) -> Mapping[Kind, float | None]:
        """How long a task of each kind may wait for a slot, in seconds."""
        return {INTERACTIVE: self.interactive_timeout_seconds, BATCH: self.batch_timeout_seconds}

    @property
    def time_limits(self) -> Mapping[Kind, float | None]:
        """How long a task of each kind may run, in seconds, where it doesn't say so itself."""
        return {INTERACTIVE: self.interactive_time_limit, BATCH: self.batch_time_limit}

    @property
    def admission(self) -> Mapping[Kind, tuple[int | None, float | None]]:
        """How many tasks of each kind may wait, and for how many seconds."""
        return {
            INTERACTIVE: (self.interactive_max_backlog, self.interactive_max_wait_seconds),
            BATCH: (self.batch_max_backlog, None),
        }
