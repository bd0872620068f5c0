"""One chaos run: publishes the plan's tasks, breaks what it says, and draws up the account."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from celery import chord, group

from celery_fair import Fair
from tests.apps.chaotic import MOVING_QUEUE
from tests.chaos import replay
from tests.chaos.account import Account, Key, Trouble, settle
from tests.chaos.faults import Step, strike
from tests.chaos.job import JobRun
from tests.chaos.places import above_limit, leaked, most_at_once
from tests.chaos.plan import Call, Plan
from tests.chaos.progress import Progress
from tests.chaos.resting import Probe, complaints, grown, wait_rest
from tests.chaos.site import Site
from tests.nodes.journal import Entry

WINDOW = 300
"""How many messages are open at most: a backlog, and no flood."""
AT_ONCE = 10
LASTS_SECONDS = 6.0
"""A fault is undone after that, also where too few tasks end meanwhile."""
STEP_SECONDS = 90.0
SETTLED_SECONDS = 3.0
QUIET_SECONDS = 25.0
"""Beside the time after which Redis gives out again what a worker that died has had."""
POLL_SECONDS = 0.02
WARM_UP = 24


@dataclass(frozen=True)
class Outcome:
    """What a run came to; ``complaints`` are all that is wrong."""

    plan: Plan
    stock: bool
    account: Account
    complaints: tuple[str, ...]
    grown: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    books: replay.Books | None
    seconds: float
    struck: int
    job: str
    most_places: int


@dataclass
class Later:
    """A step that is due when so many tasks have ended, or at a time, whichever is first."""

    step: Step
    at: int
    due: float
    what: str


class Chaos:
    """A plan carried out on a site."""

    def __init__(self, plan: Plan, folder: Path, *, stock: bool = False, naive: str = "") -> None:
        self.plan = plan
        self.stock = stock
        self.site = Site(plan, folder, stock=stock, naive=naive)
        self.progress = Progress(self.site.journal.path)
        self.job = JobRun(self.site, replace(plan, items=0) if stock else plan)
        self._calls = deque(plan.calls)
        self._faults = deque(plan.faults)
        self._later: list[Later] = []
        self._complaints: list[str] = []
        self._grown: list[str] = []
        self._struck = 0

    def run(self, seconds: float) -> Outcome:
        """Carry it out, in that time at the most and what coming to rest takes."""
        begun = time.monotonic()
        try:
            self.site.start()
            before = self._warm_up()
            self.job.start()
            self._strike_all(begun + seconds)
            self._come_to_rest(before)
            for worker in self.site.workers:
                worker.close()
            account, books = self._account(self.site.left())
        finally:
            self.site.close()
        return Outcome(
            self.plan,
            self.stock,
            account,
            tuple(self._complaints),
            tuple(self._grown),
            tuple(self.site.troubles),
            books,
            time.monotonic() - begun,
            self._struck,
            self.job.line(self.site.journal.entries()),
            most_at_once(self.site.journal.entries(), self.site.troubles),
        )

    # --- the run

    def _warm_up(self) -> list[Probe]:
        """Have each kind of connection opened, and note what each worker has at rest then."""
        for number in range(WARM_UP * len(self.site.workers)):
            kind, ack = "ib"[number % 2], ("early", "late", "again")[number % 3]
            name = f"{kind}.{ack}.retrying" if number % 4 == 0 else f"{kind}.{ack}"
            self._publish(Call(f"warm{number:03}", name, 0.05, times=int(number % 4 == 0)))
        self.job.warm_up()
        self._wait_quiet()
        return [wait_rest(self.site, worker) for worker in self.site.workers]

    def _strike_all(self, end: float) -> None:
        start = self.progress.ended
        while (self._calls or self._faults) and time.monotonic() < end:
            self.progress.look()
            ended = self.progress.ended - start
            self.job.reached(ended / len(self.plan.calls))
            if self.progress.open < WINDOW:
                for _ in range(min(AT_ONCE, len(self._calls))):
                    self._publish(self._calls.popleft())
            if self._faults and ended >= self._faults[0].at:
                self._strike(ended)
            elif not self._calls and self.progress.open == 0:
                break  # some tasks were killed as asked, and the last faults will not come
            self._do_what_is_due(ended)
            time.sleep(POLL_SECONDS)
        self.job.reached(1.0)
        for later in self._later:
            later.due = time.monotonic()

    def _strike(self, ended: int) -> None:
        fault = self._faults.popleft()
        steps = strike(self.site, fault)
        self._struck += bool(steps) or fault.name in ("cut", "kill_child", "restart_broker")
        due = time.monotonic() + LASTS_SECONDS
        self._later += [Later(step, ended + fault.lasts, due, str(fault)) for step in steps]

    def _do_what_is_due(self, ended: int) -> None:
        now = time.monotonic()
        for later in list(self._later):
            if ended < later.at and now < later.due:
                continue
            if later.step():
                self._later.remove(later)
            elif now > later.due + STEP_SECONDS:
                self._later.remove(later)
                self._complaints.append(f"could not be undone: {later.what}")

    def _publish(self, call: Call) -> None:
        options: dict[str, Any] = {"countdown": call.countdown or None}
        if call.moving:
            options["queue"] = MOVING_QUEUE
        tasks = self.site.app.tasks
        if not call.canvas:
            arguments = (call.seconds, call.times, 0.2) if call.times else (call.seconds,)
            tasks[call.name].apply_async(arguments, task_id=call.id, **options)
            return
        header = [
            tasks[call.name].si(call.seconds).set(task_id=f"{call.id}-{number}", **options)
            for number in range(call.size)
        ]
        if call.canvas == "group":
            group(header, app=self.site.app).apply_async()
        else:
            body = tasks[f"{call.name}.body"].s(call.seconds).set(task_id=f"{call.id}-body")
            chord(header, app=self.site.app)(body)

    # --- its end

    def _come_to_rest(self, before: list[Probe]) -> None:
        end = time.monotonic() + 2 * STEP_SECONDS
        while self._later and time.monotonic() < end:
            self._do_what_is_due(self.progress.ended)
            time.sleep(POLL_SECONDS)
        for worker in self.site.workers:
            if not worker.running:
                self._complaints.append(f"{worker.hostname} has ended by itself")
            else:
                worker.wait_for(worker.is_ready, "being ready", timeout=STEP_SECONDS)
        self._wait_quiet()
        self.job.wait()
        self._complaints += above_limit(self.site.journal.entries(), self.site.troubles)
        self._complaints += self.job.complaints(self.site.journal.entries())
        outages = sum(trouble.what.startswith("broker") for trouble in self.site.troubles)
        for worker, probe in zip(self.site.workers, before, strict=True):
            if worker.running:
                after = wait_rest(self.site, worker, probe, outages)
                self._complaints += complaints(worker.hostname, probe, after, outages)
                self._grown.append(grown(worker.hostname, probe, after))
        if not self.stock:
            self._complaints += leaked(Fair.of(self.site.app).resources.store)

    def _wait_quiet(self) -> None:
        """Until nothing is open, or nothing has ended for so long that nothing will."""
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < self.site.visibility_seconds + QUIET_SECONDS:
            self.progress.look()
            if self.progress.ended != seen:
                seen, since = self.progress.ended, time.monotonic()
            if self.progress.open == 0 or self._settled(since):
                return
            time.sleep(0.5)

    def _settled(self, since: float) -> bool:
        """Whether what is open will not end: killed as asked, and nothing at the broker."""
        if time.monotonic() - since < SETTLED_SECONDS:
            return False
        account, _ = self._account({})
        return not account.lost

    def _account(self, at_broker: Mapping[Key, int]) -> tuple[Account, replay.Books | None]:
        books = replay.replay(self.site.folder / "redis") if self.site.is_redis else None
        entries = self.site.journal.entries()
        unread = _never_read(books, entries, self.site.troubles) if books else ()
        return settle(entries, self.site.troubles, at_broker, unread), books


def _never_read(
    books: replay.Books, entries: list[Entry], troubles: list[Trouble]
) -> Iterator[Key]:
    """Messages that Redis has popped for a worker that died, or as it died itself.

    kombu pops in one step and notes in another, so that no worker can help it. Within seconds: a
    reply that was left in its socket for longer is somebody's fault, and so is one that was read.
    """
    deaths = [one for one in troubles if one.what in ("kill", "broker killed")]
    read = {Key(one.label, int(one.more["retries"])) for one in entries if one.event == "unnoted"}
    for key, second in books.in_hand.items():
        if key not in read and any(one.at - 2 <= second <= one.until + 1 for one in deaths):
            yield key
