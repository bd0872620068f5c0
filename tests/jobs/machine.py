"""Producers, workers and operators who do anything in any order to a job, and what holds then.

The same calls go to all stores of a machine, at the same times, and must have the same answers; the
first is in memory, so that every open item can be looked for there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from celery_fair.errors import JobConflict
from celery_fair.jobs import keeping
from celery_fair.jobs.memory_job import MemoryJob
from celery_fair.jobs.memory_store import MemoryStore
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import CANCELLED, ENDED, RUNNING
from celery_fair.jobs.store import Claim, Due, Failed, JobStore, Report

JOB, TASK = "j", "shop.summarize"
LEASE = 30.0

CALLS = {call: {"task": "x"} for call in ("progress", "finish", "failures")}

randoms = st.randoms(use_true_random=True)

plans = st.builds(
    Plan,
    id=st.just(JOB),
    task=st.just(TASK),
    total=st.sampled_from([None, 8]),
    chunk_items=st.sampled_from([None, 1, 3, 5]),
    backlog=st.integers(1, 3),
    ahead=st.integers(1, 10),
    results=st.booleans(),
    max_failures=st.sampled_from([None, 2, 0.5]),
    progress_seconds=st.sampled_from([0.0, 10.0]),
    calls=st.sampled_from([{}, CALLS]),
)


@dataclass
class Running:
    """A chunk that runs, or believes that it does."""

    claim: Claim
    until: float
    reported: int = 0
    last: tuple[Report, dict[str, Any]] | None = field(default=None)

    @property
    def left(self) -> list[int]:
        return list(self.claim.indices[self.reported :])


class JobMachine(RuleBasedStateMachine):
    """One job, from all sides."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        numbers = itertools.count()
        self.names = (f"n{number}" for number in numbers)
        self.stores = self.make_stores()
        self.tickets: list[str] = []
        self.alive: list[Running] = []
        self.over: list[Running] = []
        self.done: set[int] = set()
        self.failed: set[int] = set()
        self.due: set[Due] = set()
        self.called: set[Due] = set()

    def make_stores(self) -> list[JobStore]:
        return [self.memory()]

    def memory(self) -> MemoryStore:
        return MemoryStore(lambda: self.now, self.ids())

    def ids(self) -> Any:
        """Names for what a store mints: the same for each of them."""
        numbers = itertools.count()
        return lambda: f"m{next(numbers)}"

    def ask(self, method: str, *args: Any, **options: Any) -> Any:
        answers = [_answer(getattr(store, method), *args, **options) for store in self.stores]
        for answer in answers[1:]:
            assert answer == answers[0], f"{method}{args}{options}"
        if isinstance(answers[0], JobConflict):
            raise answers[0]
        return answers[0]

    @property
    def memory_job(self) -> MemoryJob:
        return self.stores[0]._jobs[JOB]

    @initialize(plan=plans, count=st.integers(4, 10))
    def create(self, plan: Plan, count: int) -> None:
        self.plan = plan
        assert self.ask("create", plan)
        assert not self.ask("create", plan)
        self.append(0, count)
        self.grant(plan.backlog)

    # -- producers -------------------------------------------------------------------------------

    @rule(draw=randoms)
    def append_any(self, draw: Random) -> None:
        self.append(draw.randint(-1, 3), draw.randint(0, 8))

    def append(self, behind: int, count: int) -> None:
        before = self.ask("progress", JOB)
        first = max(before.submitted - behind, 0)
        items = [f'"{index}"' for index in range(first, first + count)]
        try:
            appended = self.ask("append", JOB, first, items)
        except JobConflict:
            assert not before.submitting
            assert first + count > before.submitted
            return
        assert before.submitted <= appended.submitted <= max(first + count, before.submitted)
        assert appended.stop == (before.state == CANCELLED)
        progress = self.ask("progress", JOB)
        left = progress.submitted - progress.done - progress.failed
        assert left <= self.plan.ahead or appended.submitted == before.submitted

    @rule(off=st.sampled_from([0, -1, 1]))
    @precondition(lambda self: len(self.done) + len(self.failed) > 5)
    def close(self, off: int) -> None:
        before = self.ask("progress", JOB)
        try:
            self.heard(self.ask("close", JOB, before.submitted + off))
        except JobConflict:
            assert off
            assert self.ask("progress", JOB) == before

    @rule(count=st.integers(1, 4))
    def grant(self, count: int) -> None:
        tickets = [next(self.names) for _ in range(count)]
        granted = self.ask("grant", JOB, tickets)
        assert granted == tickets[: len(granted)]
        assert self.ask("grant", JOB, granted) == granted, "an answer that got lost"
        self.tickets += granted

    # -- workers ---------------------------------------------------------------------------------

    @rule()
    def grant_and_claim(self) -> None:
        """Work as most workers do, so that there is something to disturb."""
        self.grant(1)
        if self.tickets:
            self.claim_for(self.tickets[-1])

    @rule(draw=randoms)
    @precondition(lambda self: self.tickets)
    def claim(self, draw: Random) -> None:
        self.claim_for(draw.choice(self.tickets))

    def claim_for(self, ticket: str) -> None:
        token = next(self.names)
        found = self.ask("claim", JOB, ticket, LEASE, token=token)
        if not isinstance(found, Claim):
            return
        assert self.ask("claim", JOB, ticket, LEASE, token=token) == found
        assert found.items == [f'"{index}"' for index in found.indices]
        self.no_more_of(found)
        assert self.done.isdisjoint(found.indices)
        self.alive.append(Running(found, self.now + LEASE))

    def no_more_of(self, found: Claim) -> None:
        """Whoever had these items must have been silent for a lease."""
        for chunk in list(self.alive):
            if chunk.claim.ticket == found.ticket or set(found.indices) & set(chunk.left):
                assert chunk.until <= self.now, "claimed twice"
                self.alive.remove(chunk)
                self.over.append(chunk)

    @rule(draw=randoms)
    @precondition(lambda self: self.alive)
    def renew(self, draw: Random) -> None:
        chunk = draw.choice(self.alive)
        if self.ask("renew", chunk.claim, LEASE):
            chunk.until = self.now + LEASE
        else:
            self.lost(chunk)

    def lost(self, chunk: Running) -> None:
        assert chunk.until <= self.now, "lost within its lease"
        self.alive.remove(chunk)
        self.over.append(chunk)

    @rule(draw=randoms)
    @precondition(lambda self: self.alive)
    def report(self, draw: Random) -> None:
        chunk = draw.choice(self.alive)
        left = chunk.left
        count = draw.randint(0, len(left))
        failed = {index for index in left[:count] if draw.random() < 0.2}
        options = {
            "size": draw.randint(1, 5),
            "ends": draw.random() < 0.5 or count == len(left),
            "next_ticket": draw.choice([None, next(self.names)]),
        }
        options["yielded"] = options["ends"] and count < len(left)
        said = Report(
            after=chunk.reported,
            count=count,
            failed=[Failed(index, "ValueError", f"bad {index}") for index in sorted(failed)],
            results={i: f'"r{i}"' for i in left[:count] if i not in failed}
            if self.plan.results
            else {},
            seconds=0.5 * count,
        )
        self.told(chunk, said, options, set(left[:count]), failed)

    def results_of(self, indices) -> dict[int, str]:
        return {index: f'"r{index}"' for index in indices} if self.plan.results else {}

    def told(self, chunk, said, options, finished, failed) -> None:
        answer = self.ask("report", chunk.claim, said, **options)
        if not answer.counted:
            self.lost(chunk)
            return
        assert self.done.isdisjoint(finished)
        self.done |= finished - failed
        self.failed |= failed
        chunk.reported += len(finished)
        chunk.last = (said, options)
        self.heard(answer.calls)
        if answer.next_ticket:
            self.tickets.append(answer.next_ticket)
        if options["ends"]:
            self.alive.remove(chunk)
            self.over.append(chunk)
        counted = self.ask("progress", JOB)
        again = self.ask("report", chunk.claim, said, **options)
        assert again == (answer if options["ends"] else answer._replace(calls=()))
        assert self.ask("progress", JOB) == counted, "an answer that got lost"

    @rule(draw=randoms)
    @precondition(lambda self: any(chunk.last for chunk in self.alive + self.over))
    def repeat(self, draw: Random) -> None:
        """A report comes twice, or late: whatever it says, it counts nothing."""
        chunks = [chunk for chunk in self.alive + self.over if chunk.last]
        said, options = (chunk := draw.choice(chunks)).last
        before = self.ask("progress", JOB)
        answer = self.ask("report", chunk.claim, said, **{**options, "ends": chunk in self.over})
        after = self.ask("progress", JOB)
        assert (after.done, after.failed) == (before.done, before.failed)
        self.heard(answer.calls)

    # -- keepers ---------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3.0, 31.0, 61.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    @precondition(lambda self: self.alive)
    def lose_a_worker(self) -> None:
        self.now += LEASE + 1
        self.overdue(100)

    @rule(limit=st.sampled_from([1, 100]))
    def overdue(self, limit: int) -> None:
        for found in self.ask("overdue", [TASK], limit):
            assert found.job == JOB
            assert len(found.tickets) <= limit
            self.tickets += [ticket for ticket in found.tickets if ticket not in self.tickets]
            assert self.called.isdisjoint(found.calls)
            self.due.update(found.calls)
        assert self.ask("overdue", ["another.task"], limit) == []

    def heard(self, calls) -> None:
        self.due.update(due for due in calls if due not in self.called)

    @rule(draw=randoms)
    @precondition(lambda self: self.due)
    def call(self, draw: Random) -> None:
        due = draw.choice(sorted(self.due))
        self.ask("called", JOB, due)
        self.due.remove(due)
        self.called.add(due)

    # -- operators -------------------------------------------------------------------------------

    @rule()
    def pause(self) -> None:
        ended = self.ask("progress", JOB).state in ENDED
        assert self.ask("pause", JOB, "by hand") != ended

    @rule()
    def resume(self) -> None:
        ended = self.ask("progress", JOB).state in ENDED
        assert self.ask("resume", JOB) != ended
        assert ended or self.ask("progress", JOB).state == RUNNING

    @rule()
    @precondition(lambda self: len(self.over) > 5)
    def cancel(self) -> None:
        ended = self.ask("progress", JOB).state in ENDED
        assert self.ask("cancel", JOB, "enough") != ended

    @rule()
    def retry_failed(self) -> None:
        before = self.ask("progress", JOB)
        count = self.ask("retry_failed", JOB)
        assert count == (0 if before.state == CANCELLED else before.failed)
        if count:
            self.failed.clear()

    # -- what holds ------------------------------------------------------------------------------

    @invariant()
    def counts_are_exact(self) -> None:
        progress = self.ask("progress", JOB)
        failures = self.ask("failures", JOB)
        lost = {one.index for one in failures if one.error == keeping.WORKER_LOST} - self.failed
        assert self.done.isdisjoint(lost)
        self.failed |= lost
        assert progress.done == len(self.done)
        assert progress.failed == len(failures)
        assert {one.index for one in failures} == self.failed
        results = self.ask("results", JOB)
        assert set(results) == (self.done if self.plan.results else set())

    @invariant()
    def each_item_is_in_one_place(self) -> None:
        job = self.memory_job
        assert len(job.waiting) + len(job.claims) <= self.plan.backlog
        if job.state == CANCELLED:
            return
        places = Counter(range(job.next, job.submitted))
        places.update(job.retrying)
        places.update(job.failed)
        for piece in [*job.back, *(held.piece for held in job.claims.values())]:
            places.update(piece.indices)
        places.update(self.done)
        assert places == Counter(range(job.submitted))
        assert set(job.items) | set(job.failures) == set(places) - self.done

    @invariant()
    def it_ends_when_nothing_is_left(self) -> None:
        progress = self.ask("progress", JOB)
        if progress.state == CANCELLED:
            return
        nothing_left = progress.done + progress.failed == progress.submitted
        assert (progress.state in ENDED) == (nothing_left and not progress.submitting)

    def teardown(self) -> None:
        """Whatever has happened: with workers that live, a job comes to its end."""
        for _ in range(200):
            if self.ask("progress", JOB).state in ENDED:
                break
            self._go_on()
        progress = self.ask("progress", JOB)
        assert progress.state in ENDED
        if progress.state != CANCELLED and self.plan.calls:
            assert any(due.call == "finish" for due in self._all_due())
        self.counts_are_exact()

    def _go_on(self) -> None:
        self.now += 31.0
        if self.ask("progress", JOB).submitting:
            self.ask("close", JOB, self.ask("progress", JOB).submitted)
        self.ask("resume", JOB)
        self.overdue(100)
        for ticket in list(self.tickets):
            claim = self.ask("claim", JOB, ticket, LEASE, token=next(self.names))
            if isinstance(claim, Claim):
                self.no_more_of(claim)
                chunk = Running(claim, self.now + LEASE)
                self.alive.append(chunk)
                options = {"size": 100, "ends": True, "next_ticket": next(self.names)}
                said = Report(0, len(claim.indices), results=self.results_of(claim.indices))
                self.told(chunk, said, options, set(claim.indices), set())

    def _all_due(self) -> set[Due]:
        self.now += keeping.CALL_SECONDS + 1
        for found in self.ask("overdue", [TASK], 100):
            self.due.update(found.calls)
        return self.due | self.called


def _answer(method: Any, *args: Any, **options: Any) -> Any:
    try:
        answer = method(*args, **options)
    except JobConflict as error:
        return _Conflict(str(error))
    return (
        list(answer)
        if isinstance(answer, list | tuple) and not hasattr(answer, "_fields")
        else answer
    )


class _Conflict(JobConflict):
    """Equal to another of the same words."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Conflict) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))
