"""What workers tell each other: their last words, and how old those are."""

from __future__ import annotations

from collections.abc import Iterable

from celery_fair.policy import FleetView, Member, fleet_view
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.worker import Worker

FORGET_SECONDS = 3.0
"""After how long without a word the others take a worker for dead."""
FRESH_SECONDS = 2.0
"""Words that come less often tell only who is there: what workers go by (`worker.fleet`)."""
MANY = 16
"""From so many workers on their words are added up once, not anew for each of them."""


class Words:
    """The place where workers of one fleet leave their words, ``delay`` seconds apart."""

    def __init__(self, scenario: Scenario, workers: Iterable[Worker]) -> None:
        delay = scenario.fleet_delay_seconds
        self._workers = list(workers)
        self.are_told = delay is not None and len(self._workers) > 1
        self._delay = delay or 0.0
        self._partitions = scenario.partitions
        self._fresh = self._delay <= FRESH_SECONDS
        self._words: dict[str, tuple[float, Member]] = {}
        # Nobody is ever gone from a fleet without outages, so that sums may be kept.
        steady = not scenario.outages and not scenario.partitions
        self._sums = Sums(self._workers) if steady and len(self._workers) >= MANY else None

    def exchange(self, worker: Worker, now: float) -> None:
        """A worker looks at the others' words, and leaves its own if the last has got old."""
        if self._partitions and self._is_apart(worker, now):
            said_at, _ = self._words.get(worker.name, (now, None))
            if now - said_at >= self._delay + FORGET_SECONDS:
                worker.lose_sight(all(self._is_apart(one, now) for one in self._workers) is False)
            return
        said = self._words.get(worker.name)
        if said is None or now - said[0] >= self._delay:
            word = worker.word()
            self._words[worker.name] = now, word
            if self._sums is not None:
                self._sums.replace(None if said is None else said[1], word)
        worker.see(self._view(worker, now))

    def _view(self, worker: Worker, now: float) -> FleetView:
        if self._sums is not None:
            return self._sums.view(worker, self._words[worker.name][1], fresh=self._fresh)
        known = self._delay + FORGET_SECONDS
        young = [word for at, word in self._words.values() if now - at < known]
        return fleet_view(worker.word(), young, fresh=self._fresh)

    def _is_apart(self, worker: Worker, now: float) -> bool:
        return any(
            part.worker == worker.index and part.at <= now < part.until for part in self._partitions
        )


class Sums:
    """What `fleet_view` adds up, kept up to date word by word: 1,000 workers need it."""

    def __init__(self, workers: list[Worker]) -> None:
        self._before: dict[str, int] = {}
        self._slots = 0
        for worker in workers:  # in the order of their names
            self._before[worker.name] = self._slots
            self._slots += worker.slots
        self._said = 0
        self._said_slots = self._interactive = self._batch = self._finished = 0
        self._rate = 0.0
        self._means = [0.0, 0.0]
        self._known = [0, 0]

    def replace(self, old: Member | None, new: Member) -> None:
        """Count a word in the place of the one before."""
        if old is not None:
            self._add(old, -1)
        self._add(new, 1)

    def _add(self, word: Member, sign: int) -> None:
        self._said += sign
        self._said_slots += sign * word.slots
        self._interactive += sign * word.running_interactive
        self._batch += sign * word.running_batch
        self._finished += sign * word.batch_finished
        self._rate += sign * word.interactive_rate
        for index, mean in enumerate((word.interactive_mean_seconds, word.batch_mean_seconds)):
            if mean > 0:
                self._means[index] += sign * mean
                self._known[index] += sign

    def view(self, worker: Worker, said: Member, *, fresh: bool) -> FleetView:
        """The same as `fleet_view`, of one who has left a word; its own numbers are as of now."""
        policy = worker.policy
        interactive, batch = (
            self._means[index] / known if (known := self._known[index]) else None
            for index in (0, 1)
        )
        return FleetView(
            workers=self._said,
            slots=self._said_slots,
            slots_before=self._before[worker.name],
            running_interactive=self._interactive
            - said.running_interactive
            + policy.running_interactive,
            running_batch=self._batch - said.running_batch + policy.running_batch,
            interactive_rate=self._rate,
            interactive_mean_seconds=interactive,
            batch_mean_seconds=batch,
            batch_finished=self._finished,
            fresh=fresh,
        )
