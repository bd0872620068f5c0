"""The job of a chaos run, under all that dies around it, and its count at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from celery_fair import Fair, Job, Progress, StateAway
from celery_fair.jobs.progress import ENDED
from tests.apps.chaotic import JOB, job_fails
from tests.chaos.plan import Plan
from tests.chaos.site import Site
from tests.nodes.journal import Entry

WARM_UP = 60
IN_FRONT = 50
PATIENCE_SECONDS = 150.0
LOST = "WorkerLost"


class JobRun:
    """A job that is submitted bit by bit while everything dies; its producer is in this process."""

    def __init__(self, site: Site, plan: Plan) -> None:
        self._site = site
        self._items = plan.items
        self._job: Job | None = None
        self.progress: Progress | None = None
        self._part = 0.0

    def warm_up(self) -> None:
        """Have each worker open what jobs need."""
        if self._items:
            items = range(WARM_UP * len(self._site.workers))
            self._submit([[n, 0.02] for n in items], "warm").wait(PATIENCE_SECONDS)

    def start(self) -> None:
        """Submit it; a thread goes on with that."""
        if self._items:
            self._job = self._submit(self._paced(), "job")

    def reached(self, part: float) -> None:
        """So much of the run is over: the job's items come as it goes on, up to the last fault."""
        self._part = part

    def _paced(self) -> Iterator[list[float]]:
        for n in range(self._items):
            while n > self._items * self._part + IN_FRONT:
                time.sleep(0.02)
            yield [n, 0.02 + n % 7 / 100]

    def _submit(self, items: object, id: str) -> Job:
        fair = Fair.of(self._site.app)
        return fair.submit_job(JOB, items, id=id, ahead=200, backlog=8)

    def wait(self) -> None:
        """Wait until it has ended, for as long as something happens to it."""
        if self._job is None:
            return
        seen, since = None, time.monotonic()
        while time.monotonic() - since < PATIENCE_SECONDS:
            try:
                self.progress = self._job.progress()
            except StateAway:
                continue
            if self.progress.state in ENDED:
                return
            if self.progress.last_at != seen:
                seen, since = self.progress.last_at, time.monotonic()
            time.sleep(0.2)

    def complaints(self, entries: list[Entry]) -> Iterator[str]:
        """All that is wrong with the count."""
        if self._job is None:
            return
        found = self.progress
        if found is None or found.state not in ENDED:
            yield f"the job has not ended: {found}"
            return
        if found.done + found.failed != self._items or found.running or found.total != self._items:
            yield f"the job counts other than {self._items} items: {found}"
        errors = {one.index: one.error for one in self._job.failures(0, self._items)}
        lost = {index for index, error in errors.items() if error == LOST}
        expected = {n for n in range(self._items) if job_fails(n)} | lost
        if set(errors) != expected or found.failed != len(expected):
            yield f"other items of the job have failed: {sorted(set(errors) ^ expected)}"
        if lost and found.lost < len(lost) + 2:  # alone at its third time, the first two shared
            yield f"{len(lost)} items have failed as lost with {found.lost} chunks"
        never = set(range(self._items)) - set(runs(entries))
        if never:
            yield f"items of the job that never ran: {sorted(never)}"

    def line(self, entries: list[Entry]) -> str:
        """What it came to."""
        if self.progress is None:
            return "no job"
        again = sum(count - 1 for count in runs(entries).values())
        found = self.progress
        return (
            f"a job of {found.total} items = {found.done} done + {found.failed} failed, "
            f"{again} run again, {found.lost} chunks lost"
        )


def runs(entries: list[Entry]) -> Counter[int]:
    """How often each item of the job has begun."""
    return Counter(
        int(one.more["n"]) for one in entries if one.event == "item" and one.more["job"] == "job"
    )
