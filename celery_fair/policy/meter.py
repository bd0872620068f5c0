"""What one worker has measured, and what it makes of it together with the fleet's words."""

from __future__ import annotations

from celery_fair.policy.estimates import Rate, RunTime
from celery_fair.policy.fleet import Member, Place
from celery_fair.policy.load import Load
from celery_fair.policy.reserve import Traffic
from celery_fair.policy.share import Received


class Meter:
    """Run times, the rate of interactive starts, and the share that batch received."""

    __slots__ = ("batch", "interactive", "interactive_rate", "received", "starts")

    def __init__(self, now: float) -> None:
        self.interactive, self.batch = RunTime(), RunTime()
        self.starts = Rate(now)
        self.interactive_rate = 0.0
        self.received = Received(now)

    def tick(
        self, load: Load, now: float, *, interactive: int, batch: int, slots: int,
        serves_both: bool, memory: float,
    ) -> None:  # fmt: skip
        """Take in a load while so many tasks run; ``memory`` is that of the arrival rate."""
        self.interactive.oldest = load.interactive_oldest_run_seconds
        self.batch.oldest = load.batch_oldest_run_seconds
        self.interactive_rate = self.starts.per_second(now, memory)
        # Unknown is a yes only to a kind that has been seen: nothing is owed to what never came.
        seen = load.batch_backlog is not None or batch + self.batch.count > 0
        # What is paused waits for its resume, and wants no slot.
        both = (
            serves_both
            and seen
            and load.batch_waits
            and (load.interactive_waits or interactive > 0)
        )
        self.received.tick(now, batch if both else None, slots)

    def traffic(self, place: Place, slots: int, running_batch: int) -> Traffic:
        """The fleet's sums and means, or this worker's own, scaled, where the view lacks them."""
        view, total = place.view, place.segment.total
        rate = self.interactive_rate * total / max(slots, 1)
        interactive, batch = self.interactive.expected, self.batch.expected
        finished = self.batch.count
        if view is not None:
            rate = rate if view.interactive_rate is None else view.interactive_rate
            if place.in_sight:
                interactive = view.interactive_mean_seconds or interactive
                batch = view.batch_mean_seconds or batch
            else:
                interactive = interactive or view.interactive_mean_seconds or 0.0
                batch = batch or view.batch_mean_seconds or 0.0
            finished = finished if view.batch_finished is None else view.batch_finished
        running = running_batch + place.last_batch
        return Traffic(total, rate, interactive, batch, running, finished)

    def member(self, name: str, slots: int, interactive: int, batch: int) -> Member:
        """This worker's word to the others."""
        return Member(
            name=name,
            slots=slots,
            running_interactive=interactive,
            running_batch=batch,
            interactive_rate=self.interactive_rate,
            interactive_mean_seconds=self.interactive.expected,
            batch_mean_seconds=self.batch.expected,
            batch_finished=self.batch.count,
        )
