"""What every store of jobs does, one situation at a time; `tests.jobs.machine` does all at once.

A test file has a fixture ``store`` whose clock is the fixture ``clock``, and imports these tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from celery_fair.errors import JobConflict, JobNotFound
from celery_fair.jobs import keeping
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import CANCELLED, FINISHED, FINISHED_WITH_FAILURES, PAUSED, RUNNING
from celery_fair.jobs.store import Appended, Claim, Due, Failed, JobStore, Nothing, Report

TASK = "shop.summarize"
LEASE = 30.0
PLAN = Plan("j", TASK, chunk_items=4)
CALLS = {call: {"task": "shop.tell"} for call in ("progress", "finish", "failures")}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def submit(store: JobStore) -> Callable[..., str]:
    """``submit(count, **plan)``: a job of so many items, all in, its tickets not granted."""

    def submit(count: int, id: str = "j", **plan) -> str:
        store.create(replace(PLAN, id=id, **plan))
        store.append(id, 0, [str(index) for index in range(count)])
        store.close(id, count)
        return id

    return submit


def claim(store: JobStore, job: str = "j", ticket: str = "t") -> Claim | Nothing:
    store.grant(job, [ticket])
    return store.claim(job, ticket, LEASE)


def finish(store: JobStore, claim: Claim, failed: dict[int, str] | None = None, **options):
    """Report all of a claim as done, but for those that ``failed`` with a message."""
    said = Report(
        after=0,
        count=len(claim.indices),
        failed=[Failed(index, "ValueError", text) for index, text in (failed or {}).items()],
        seconds=0.1 * len(claim.indices),
    )
    return store.report(claim, said, **{"size": 4, "ends": True, **options})


def run(store: JobStore, job: str = "j", failing: tuple[int, ...] = ()) -> None:
    """Work until there is nothing to do, as workers do that never die."""
    number = 0
    while isinstance(found := claim(store, job, f"run{number}"), Claim):
        finish(store, found, {index: "bad" for index in failing if index in found.indices})
        number += 1


# Submitting


def test_a_job_is_made_once_and_never_for_another_task(store):
    assert store.create(PLAN)
    assert not store.create(replace(PLAN, chunk_items=9))
    assert store.plan("j") == PLAN
    with pytest.raises(JobConflict, match=r"expected 'shop\.summarize', .*got 'shop\.tell'"):
        store.create(replace(PLAN, task="shop.tell"))


def test_a_plan_comes_back_as_it_went(store):
    plan = Plan(
        "a.b/ü",
        TASK,
        options={"queue": "q", "time_limit": 3.5},
        total=7,
        results=True,
        max_failures=0.1,
        calls=CALLS,
        keep_seconds=60.0,
    )
    store.create(plan)
    assert store.plan("a.b/ü") == plan
    assert store.progress("a.b/ü").total == 7


def test_a_producer_that_repeats_itself_adds_nothing(store):
    store.create(PLAN)
    assert store.append("j", 0, ["0", "1", "2"]).submitted == 3
    assert store.append("j", 0, ["0", "1", "2", "3"]).submitted == 4
    assert claim(store).items == ["0", "1", "2", "3"]


def test_a_gap_is_refused(store):
    store.create(PLAN)
    assert store.append("j", 1, ["1"]) == Appended(0, PLAN.ahead, False)


def test_a_full_job_takes_a_part_and_makes_room_as_items_finish(store):
    store.create(replace(PLAN, ahead=6))
    assert store.append("j", 0, [str(index) for index in range(10)]) == Appended(6, 0, False)
    finish(store, claim(store), {1: "a failed one needs no room either"})
    assert store.append("j", 6, ["6", "7", "8", "9", "10"]) == Appended(10, 0, False)


def test_many_items_come_as_they_went(store):
    items = [f'"{index}"' for index in range(12_345)]
    store.create(replace(PLAN, ahead=20_000, chunk_items=20_000))
    assert store.append("j", 0, items) == Appended(12_345, 7_655, False)
    assert store.append("j", 0, items) == Appended(12_345, 7_655, False)
    found = claim(store)
    assert found.items == items
    assert found.indices == list(range(12_345))
    finish(store, found)
    assert store.progress("j").done == 12_345


def test_a_job_is_closed_with_what_it_has(store):
    store.create(PLAN)
    store.append("j", 0, ["0", "1"])
    for total in (1, 3):
        with pytest.raises(JobConflict, match=f"expected its 2 items, got {total}"):
            store.close("j", total)
    store.close("j", 2)
    store.close("j", 2)
    with pytest.raises(JobConflict, match="expected the 2 items"):
        store.append("j", 1, ["1", "2"])
    assert store.append("j", 1, ["1"]).submitted == 2
    assert not store.progress("j").submitting


def test_a_job_without_items_is_finished_at_once(store):
    store.create(replace(PLAN, calls=CALLS))
    assert store.close("j", 0) == [Due("finish", 1)]
    assert store.progress("j").state == FINISHED


def test_what_is_not_there_is_said_so(store):
    for ask in (store.plan, store.progress, store.retry_failed, store.resume, store.forget):
        with pytest.raises(JobNotFound, match="there is no job 'x'"):
            ask("x")
    with pytest.raises(JobNotFound):
        store.append("x", 0, ["0"])
    with pytest.raises(JobNotFound):
        store.failures("x")
    with pytest.raises(JobNotFound):
        store.results("x")
    assert store.claim("x", "t", LEASE) == Nothing("unknown")
    assert not store.renew(Claim("x", "t", "k", [], [], 0, None, PLAN), LEASE)


def test_what_no_redis_can_be_sent_is_no_outage(store, submit):
    submit(4)
    half = "\udcff"  # as Python has it of a shell's word that isn't UTF-8, and of JSON's "\udcff"
    with pytest.raises(JobNotFound):
        store.progress(half)
    assert store.claim(half, "t", LEASE) == Nothing("unknown")
    assert store.claim("j", half, LEASE) == Nothing("surplus")
    store.pause("j", half + "!" * 1000)
    assert len(store.progress("j").reason or "") == keeping.MAX_TEXT
    store.cancel("j", half)
    assert store.progress("j").reason == "\\udcff"


# Tickets and claims


def test_no_more_tickets_than_the_backlog_and_than_there_is_work(store, submit):
    submit(9, backlog=8)
    assert store.grant("j", ["a", "b", "c", "d"]) == ["a", "b", "c"]
    submit(9, id="k", backlog=2)
    assert store.grant("k", ["a", "b", "c", "d"]) == ["a", "b"]


def test_a_backlog_of_any_length_is_granted_at_once(store, submit):
    submit(10_000, chunk_items=1, backlog=10_000)
    tickets = [f"t{number}" for number in range(10_000)]
    assert store.grant("j", tickets) == tickets


def test_a_ticket_that_nobody_granted_or_that_has_ended_is_surplus(store, submit):
    submit(9)
    assert store.claim("j", "another", LEASE) == Nothing("surplus")
    finish(store, claim(store, ticket="t"))
    assert store.claim("j", "t", LEASE) == Nothing("surplus")


def test_a_ticket_delivered_twice_has_the_items_of_one(store, submit, clock):
    submit(9)
    found = claim(store)
    clock.now += LEASE - 1
    assert store.claim("j", "t", LEASE) == Nothing("surplus")
    assert store.renew(found, LEASE)
    clock.now += LEASE - 1
    assert store.claim("j", "t", LEASE) == Nothing("surplus")
    clock.now += 2
    again = store.claim("j", "t", LEASE)
    assert again.attempt == 1
    assert not store.renew(found, LEASE)


def test_a_claim_whose_answer_got_lost_is_asked_for_again(store, submit):
    submit(9)
    store.grant("j", ["t"])
    first = store.claim("j", "t", LEASE, token="mine")
    assert store.claim("j", "t", LEASE, token="mine") == first
    assert store.progress("j").running == 4
    assert store.claim("j", "t", LEASE, token="another's") == Nothing("surplus")


def test_the_last_ticket_finds_nothing(store, submit):
    submit(8)
    store.grant("j", ["a", "b"])
    one = store.claim("j", "a", LEASE)
    two = store.claim("j", "b", LEASE)
    assert finish(store, one, next_ticket="c").next_ticket is None
    assert finish(store, two, next_ticket="d").next_ticket is None
    assert store.claim("j", "c", LEASE) == Nothing("ended")


def test_an_adaptive_job_begins_with_one_item_and_goes_on_with_what_is_said(store, submit):
    submit(9, chunk_items=None)
    first = claim(store)
    assert first.item_seconds is None
    assert first.indices == [0]
    told = finish(store, first, size=3, next_ticket="next")
    second = store.claim("j", told.next_ticket, LEASE)
    assert second.indices == [1, 2, 3]
    assert second.item_seconds == 0.1


# Reports


def test_a_long_chunk_reports_in_parts(store, submit):
    submit(4)
    found = claim(store)
    failed = [Failed(1, "ValueError", "bad")]
    assert store.report(found, Report(0, 2, failed), size=4, ends=False).counted
    assert store.progress("j").running == 2
    assert store.report(found, Report(2, 2), size=4, ends=True).counted
    progress = store.progress("j")
    assert (progress.done, progress.failed, progress.running) == (3, 1, 0)


def test_a_report_that_overlaps_one_whose_answer_got_lost_counts_what_is_new(store, submit):
    submit(4)
    found = claim(store)
    store.report(found, Report(0, 2), size=4, ends=False)
    failed = [Failed(1, "ValueError", "counted as done"), Failed(2, "ValueError", "new")]
    store.report(found, Report(0, 3, failed), size=4, ends=False)
    progress = store.progress("j")
    assert (progress.done, progress.failed) == (2, 1)
    assert [one.index for one in store.failures("j")] == [2]


def test_a_report_of_a_lost_claim_counts_nothing(store, submit, clock):
    submit(4)
    lost = claim(store)
    clock.now += LEASE + 1
    store.overdue([TASK])
    assert not finish(store, lost).counted
    assert store.progress("j").done == 0


def test_a_late_report_counts_as_long_as_nobody_has_taken_the_items(store, submit, clock):
    submit(4)
    late = claim(store)
    clock.now += 10 * LEASE
    assert finish(store, late).counted


def test_what_a_yielding_chunk_leaves_comes_first(store, submit):
    submit(9)
    found = claim(store, ticket="a")
    told = store.report(found, Report(0, 1), size=4, ends=True, next_ticket="b", yielded=True)
    assert told.next_ticket == "b"
    assert store.claim("j", "b", LEASE).indices == [1, 2, 3, 4]
    assert store.progress("j").yields == 1


def test_results_are_paged_by_index(store, submit):
    submit(300, results=True, chunk_items=300)
    found = claim(store)
    results = {index: f'"r{index}"' for index in found.indices if index != 120}
    failed = [Failed(120, "ValueError", "")]
    store.report(found, Report(0, 300, failed, results), size=1, ends=True)
    page = store.results("j", 95, 50)
    assert list(page) == [index for index in range(95, 145) if index != 120]
    assert page[95] == '"r95"'
    assert store.results("j", 299, 50) == {299: '"r299"'}
    assert store.results("j", 300) == {}


# Failures


def test_a_failure_says_which_why_how_often_and_when(store, submit, clock):
    submit(4)
    finish(store, claim(store), {2: "no such document" + 600 * "!"})
    (failure,) = store.failures("j")
    assert (failure.index, failure.item, failure.error) == (2, 2, "ValueError")
    assert failure.message.startswith("no such document!")
    assert len(failure.message) == keeping.MAX_TEXT
    assert (failure.times, failure.at) == (1, clock.now)
    assert store.progress("j").state == FINISHED_WITH_FAILURES


def test_a_failed_item_is_shown_as_it_was_kept_where_it_can_not_be_decoded(store):
    item = '{"__type__": "datetime", "__value__": "soon"}'
    store.create(PLAN)
    store.append("j", 0, [item])
    finish(store, claim(store), {0: "bad"})
    assert store.failures("j")[0].item == item


def test_only_failed_items_are_tried_again_and_their_failures_add_up(store, submit):
    submit(20, calls=CALLS)
    run(store, failing=(3, 7, 15))
    assert store.retry_failed("j") == 3
    assert store.progress("j").state == RUNNING
    found = claim(store, ticket="again")
    assert found.indices == [3, 7, 15]
    assert found.items == ["3", "7", "15"]
    told = finish(store, found, {7: "still bad"})
    assert told.calls == (Due("finish", 2),)
    assert [(one.index, one.times) for one in store.failures("j")] == [(7, 2)]
    assert store.progress("j").done == 19
    assert store.retry_failed("j") == 1
    run(store)
    assert store.progress("j").state == FINISHED
    assert store.retry_failed("j") == 0


def test_failures_are_tried_again_while_earlier_ones_still_wait(store, submit):
    submit(8)
    finish(store, claim(store, ticket="a"), {0: "bad", 1: "bad"})
    assert store.retry_failed("j") == 2
    finish(store, claim(store, ticket="b"), {0: "bad", 1: "bad", 4: "bad"})
    assert store.retry_failed("j") == 3
    run(store)
    assert store.progress("j").done == 8


def test_failures_are_paged(store, submit):
    submit(12)
    run(store, failing=tuple(range(10)))
    assert [one.index for one in store.failures("j", 4, 3)] == [4, 5, 6]
    assert [one.index for one in store.failures("j", 8)] == [8, 9]
    assert store.failures("j", 10) == []


def test_too_many_failures_pause_a_job_and_resuming_counts_anew(store, submit):
    submit(20, max_failures=1, calls=CALLS)
    told = finish(store, claim(store, ticket="a"), {0: "bad", 1: "bad"}, next_ticket="b")
    assert told.stop
    assert told.next_ticket is None
    assert told.calls == (Due("failures", 1),)
    progress = store.progress("j")
    assert progress.state == PAUSED
    assert progress.reason == (
        "2 of the 4 items finished since it was started or resumed have failed"
    )
    assert store.grant("j", ["c"]) == []
    assert store.resume("j")
    told = finish(store, claim(store, ticket="d"), {4: "bad"})
    assert not told.stop
    assert store.progress("j").reason is None


def test_a_job_pauses_rather_than_keep_no_more_failures(store, submit):
    most = keeping.KEPT_FAILURES
    submit(most + 10, ahead=most + 10, chunk_items=most)
    found = claim(store, ticket="a")
    told = finish(store, found, dict.fromkeys(found.indices, "bad"), next_ticket="b")
    assert told.stop
    assert store.progress("j").reason.startswith("10000 failed items are kept")
    assert len(store.failures("j", 0, most + 10)) == most
    assert store.resume("j")
    told = finish(store, claim(store, ticket="b"), {most: "one more is kept now"})
    assert store.progress("j").failed == most + 1
    assert store.progress("j").state == FINISHED_WITH_FAILURES
    assert store.retry_failed("j") == most + 1
    found = claim(store, ticket="c")
    assert len(found.items) == most
    assert finish(store, found).counted
    assert store.progress("j").done == most + 9


# Lost workers


def test_a_worker_that_is_not_heard_of_loses_its_items_to_others(store, submit, clock):
    submit(4)
    claim(store)
    clock.now += LEASE - 1
    assert store.overdue([TASK]) == []
    clock.now += 2
    (found,) = store.overdue([TASK])
    assert found.tickets[0] == "t"
    assert store.progress("j").lost == 1
    assert store.progress("j").running == 0


def lose(store, clock) -> list[str]:
    """The worker that runs is not heard of again; return the tickets that are published for it."""
    clock.now += LEASE + keeping.LOOK_SECONDS
    return [ticket for found in store.overdue([TASK]) for ticket in found.tickets]


def test_a_poison_item_is_found_by_halves_and_fails_alone(store, submit, clock):
    submit(8, chunk_items=8)
    store.grant("j", ["t"])
    seen, poison, tickets = [], 5, ["t"]
    while tickets:
        found = store.claim("j", tickets.pop(0), LEASE)
        if isinstance(found, Claim) and poison in found.indices:
            seen.append(found.indices)
            tickets += lose(store, clock)
        elif isinstance(found, Claim):
            tickets += filter(
                None, [finish(store, found, next_ticket=f"{found.ticket}+").next_ticket]
            )
    assert seen == [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7], [4, 5], [5]]
    progress = store.progress("j")
    assert (progress.done, progress.failed, progress.lost) == (7, 1, 4)
    (failure,) = store.failures("j")
    assert (failure.index, failure.error) == (5, "WorkerLost")


def test_an_item_of_its_own_chunk_may_lose_two_workers(store, submit, clock):
    submit(1)
    store.grant("j", ["t"])
    for attempt in range(keeping.LOSSES):
        assert store.progress("j").state == RUNNING
        assert store.claim("j", "t", LEASE).attempt == attempt
        lose(store, clock)
    assert store.progress("j").state == FINISHED_WITH_FAILURES


def test_poison_that_is_tried_again_takes_no_others_with_it(store, submit, clock):
    submit(2, chunk_items=1)
    store.grant("j", ["t"])
    for _ in range(keeping.LOSSES):
        store.claim("j", "t", LEASE)
        lose(store, clock)
    finish(store, store.claim("j", "t", LEASE), {1: "bad"})
    assert store.retry_failed("j") == 2
    found = claim(store, ticket="a")
    assert found.indices == [0]
    assert found.attempt == keeping.LOSSES - 1
    lose(store, clock)
    assert [(one.index, one.times) for one in store.failures("j")] == [(0, 2)]


def test_a_ticket_that_waits_is_published_again_ever_less_often(store, submit, clock):
    submit(4)
    store.grant("j", ["t"])
    said = []
    for _ in range(200):
        clock.now += 5
        said += [clock.now - 1_000 for found in store.overdue([TASK]) for _ in found.tickets]
    assert said == [60, 180, 420, 900]


def test_work_without_tickets_gets_new_ones(store, submit, clock):
    submit(40, backlog=3)
    (found,) = store.overdue([TASK])
    assert len(set(found.tickets)) == 3
    assert isinstance(store.claim("j", found.tickets[1], LEASE), Claim)
    clock.now += keeping.LOOK_SECONDS
    assert store.overdue([TASK]) == []


def test_whoever_looks_finds_only_jobs_of_its_own_tasks(store, submit):
    submit(4)
    assert store.overdue(["another.task"]) == []
    assert len(store.overdue(["another.task", TASK])) == 1


def test_jobs_with_much_news_keep_no_keeper_from_the_others(store, submit, clock):
    busy = [submit(4, f"a{number}") for number in range(keeping.LOOKS)]
    submit(4, "z")
    assert "z" not in {one.job for one in store.overdue([TASK])}
    clock.now += keeping.LOOK_SECONDS
    for job in busy:
        store.pause(job, "by hand")
        store.resume(job)
    assert "z" in {one.job for one in store.overdue([TASK])}


def test_a_fleet_of_keepers_looks_as_often_as_one(store, submit, clock):
    submit(4)
    assert store.overdue([TASK])
    claim(store)
    clock.now += keeping.LOOK_SECONDS / 2
    assert store.overdue([TASK]) == []


# Callbacks


def test_a_callback_is_due_until_somebody_has_called_it(store, submit, clock):
    submit(4, calls=CALLS)
    assert finish(store, claim(store)).calls == (Due("finish", 1),)
    clock.now += keeping.CALL_SECONDS
    assert [found.calls for found in store.overdue([TASK])] == [[Due("finish", 1)]]
    store.called("j", Due("finish", 1))
    clock.now += keeping.CALL_SECONDS
    assert store.overdue([TASK]) == []


def test_a_job_that_ends_with_a_lost_item_is_told_of_at_once(store, submit, clock):
    submit(1, calls=CALLS)
    for _ in range(keeping.LOSSES):
        (ticket,) = store.overdue([TASK])[0].tickets
        store.claim("j", ticket, LEASE)
        clock.now += LEASE + 1
    assert [one.calls for one in store.overdue([TASK])] == [[Due("finish", 1)]]


def test_progress_is_called_no_more_often_than_asked(store, submit, clock):
    submit(40, calls=CALLS, progress_seconds=10.0)
    said = []
    for number in range(9):
        clock.now += 3
        said += finish(store, claim(store, ticket=f"t{number}")).calls
    assert said == [Due("progress", 1), Due("progress", 2)]
    store.called("j", Due("progress", 1))
    clock.now += keeping.CALL_SECONDS
    (found,) = store.overdue([TASK])
    assert found.calls == [Due("progress", 2)]


# Pausing, ending


def test_nothing_of_a_paused_job_starts_and_what_runs_is_told_to_stop(store, submit):
    submit(20)
    store.grant("j", ["a", "b"])
    found = store.claim("j", "a", LEASE)
    assert store.pause("j", "by ops@host")
    assert store.pause("j", "a second time")
    assert store.progress("j").reason == "by ops@host"
    assert store.claim("j", "b", LEASE) == Nothing("paused")
    assert store.report(found, Report(0, 1), size=4, ends=False).stop
    told = store.report(found, Report(1, 0), size=4, ends=True, next_ticket="c")
    assert (told.counted, told.next_ticket, told.stop) == (True, None, True)
    assert store.resume("j")
    run(store)
    assert store.progress("j").done == 20


def test_a_paused_job_takes_items_and_may_finish_by_what_ran(store, submit):
    store.create(PLAN)
    store.append("j", 0, ["0"])
    found = claim(store)
    store.pause("j", "by hand")
    store.close("j", 1)
    finish(store, found)
    assert store.progress("j").state == FINISHED


def test_a_cancelled_job_counts_what_ran_and_drops_the_rest_for_good(store, submit, clock):
    submit(20, calls=CALLS)
    store.grant("j", ["a", "b"])
    found = store.claim("j", "a", LEASE)
    assert store.cancel("j", "no longer wanted")
    assert not store.cancel("j", "twice")
    assert store.append("j", 20, ["20"]).stop
    assert store.claim("j", "b", LEASE) == Nothing("cancelled")
    told = finish(store, found, {1: "bad"})
    assert told.counted
    assert told.stop
    assert told.calls == ()
    progress = store.progress("j")
    assert (progress.state, progress.done, progress.failed) == (CANCELLED, 3, 1)
    assert store.retry_failed("j") == 0
    assert not store.resume("j")
    clock.now += 1_000
    assert store.overdue([TASK]) == []


def test_an_ended_job_can_be_forgotten_and_its_name_used_again(store, submit):
    submit(250, results=True, chunk_items=250)
    with pytest.raises(JobConflict, match="expected one that has ended, got one running"):
        store.forget("j")
    run(store)
    store.forget("j")
    with pytest.raises(JobNotFound):
        store.progress("j")
    assert store.list() == []
    submit(4)
    assert store.progress("j").done == 0


# Asking


def test_jobs_are_listed_the_newest_first(store, submit, clock):
    for id in "abc":
        clock.now += 1
        submit(4, id=id)
    assert [one.id for one in store.list()] == ["c", "b", "a"]
    assert [one.id for one in store.list(1, 1)] == ["b"]
    assert store.list(3) == []


def test_progress_has_the_pace_and_the_time_that_is_left(store, submit, clock):
    submit(1_000, total=1_000, chunk_items=10)
    assert store.progress("j").rate is None
    for number in range(10):
        found = claim(store, ticket=f"t{number}")
        clock.now += 1
        finish(store, found)
    progress = store.progress("j")
    assert progress.rate == 10.0
    assert progress.eta == (90.0, 90.0)
    assert (progress.first_at, progress.last_at) == (1_001.0, 1_010.0)
    clock.now += 3_600
    progress = store.progress("j")
    assert progress.rate == 0.0
    assert progress.eta is None
    store.pause("j", "by hand")
    assert store.progress("j").eta is None


def test_a_job_whose_end_nobody_knows_has_no_time_left(store, clock):
    store.create(PLAN)
    store.append("j", 0, [str(index) for index in range(100)])
    found = claim(store)
    clock.now += 1
    finish(store, found)
    progress = store.progress("j")
    assert (progress.total, progress.submitted, progress.submitting) == (None, 100, True)
    assert progress.rate == 4.0
    assert progress.eta is None


def test_a_producer_that_lives_says_so(store, clock):
    store.create(PLAN)
    clock.now += 100
    store.append("j", 0, [])
    progress = store.progress("j")
    assert progress.producer_at == clock.now
    assert progress.last_at == 1_000.0


# Odd input


def test_what_utf8_has_no_place_for_is_written_out(store, submit):
    submit(4)
    finish(store, claim(store), {0: "no file 'caf\udce9'", 1: "\udce9" * keeping.MAX_TEXT})
    first, second = store.failures("j")
    assert first.message == r"no file 'caf\udce9'"
    assert len(second.message) == keeping.MAX_TEXT


def test_a_chunk_of_large_items_has_fewer_of_them(store):
    large = '"' + "x" * (keeping.CLAIM_CHARACTERS // 3) + '"'
    store.create(replace(PLAN, chunk_items=10))
    store.append("j", 0, [large, large, large * 4, "3", "4"])
    found = claim(store, ticket="a")
    assert found.indices == [0, 1]
    assert finish(store, found, next_ticket="b").next_ticket == "b"
    assert store.claim("j", "b", LEASE).indices == [2], "one that is too large goes alone"
    assert claim(store, ticket="c").indices == [3, 4]


def test_a_job_has_at_least_what_was_submitted_whatever_its_producer_had_said(store):
    store.create(replace(PLAN, total=2))
    store.append("j", 0, ["0", "1", "2"])
    assert store.progress("j").total == 3
