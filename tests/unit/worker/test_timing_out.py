"""A task that has waited for too long: decided once, and never both run and failed."""

from __future__ import annotations

import math
import os
import threading
import time
from types import SimpleNamespace

import pytest

from celery_fair import BadOption, FairHeader, QueueTimeout
from celery_fair.observe.counts import Counts
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from celery_fair.worker import failing, internals
from celery_fair.worker.arrivals import Arrivals
from celery_fair.worker.deadlines import Deadline, Deadlines
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.failing import Failing, TimedOut
from celery_fair.worker.lanes import FAILING_LIMIT, Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.probing import PROBE_CREDIT, PROBE_SECONDS, Probing
from celery_fair.worker.timing_out import TimingOut
from celery_fair.worker.windows import Window

NOW = 1000.0


# how long a task may wait


def of(deadlines, kind, task="a", said=None, waited=0.0, redelivered=False):
    header = said and FairHeader(kind, NOW, NOW, timeout_seconds=said)
    message = SimpleNamespace(delivery_info={"redelivered": redelivered})
    return deadlines.of(kind, task, "an-id", message, header, waited, NOW)


def test_the_call_says_it_then_the_task_then_the_kind():
    deadlines = Deadlines({INTERACTIVE: 5.0, BATCH: None})
    deadlines.learn({"shop.hasty": SimpleNamespace(fair_timeout_seconds=2, acks_late=False)})
    assert of(deadlines, INTERACTIVE, "shop.hasty", 1.0) == Deadline(NOW + 1, 1.0)
    assert of(deadlines, INTERACTIVE, "shop.hasty") == Deadline(NOW + 2, 2.0)
    assert of(deadlines, INTERACTIVE, "shop.other") == Deadline(NOW + 5, 5.0)
    assert of(deadlines, BATCH, "shop.other") is None


def test_what_it_has_waited_before_it_came_counts():
    deadline = of(Deadlines({INTERACTIVE: 5.0, BATCH: None}), INTERACTIVE, waited=4.0)
    assert deadline == Deadline(NOW + 1, 5.0)
    assert deadline.waited_seconds(NOW + 3) == 7.0


def test_what_has_yielded_began_in_time_and_may_wait_for_ever_to_go_on():
    deadlines = Deadlines({INTERACTIVE: 5.0, BATCH: 5.0})
    said = FairHeader(BATCH, NOW, NOW, timeout_seconds=1.0, yields=1)
    assert deadlines.of(BATCH, "shop.any", "an-id", SimpleNamespace(), said, 99.0, NOW) is None


def test_the_shortest_that_a_lane_may_meet_is_known():
    deadlines = Deadlines({INTERACTIVE: 5.0, BATCH: None})
    assert deadlines.shortest(INTERACTIVE, NOW) == 5.0
    assert deadlines.shortest(BATCH, NOW) == math.inf


def test_one_call_with_a_short_timeout_is_not_remembered_for_ever():
    deadlines = Deadlines({INTERACTIVE: 5.0, BATCH: 600.0})
    of(deadlines, BATCH, said=3.0)
    assert deadlines.shortest(BATCH, NOW + 59) == 3.0
    assert deadlines.shortest(BATCH, NOW + 60) == 600.0


def test_what_may_have_run_until_its_worker_died_has_not_waited_meanwhile():
    """With an early ack it would not come again, unless it had not begun."""
    deadlines = Deadlines({INTERACTIVE: 5.0, BATCH: 600.0})
    tasks = {name: SimpleNamespace(acks_late=name == "late") for name in ("late", "early")}
    deadlines.learn(tasks)

    def left(task, redelivered):
        return of(deadlines, BATCH, task, waited=900.0, redelivered=redelivered).at - NOW

    assert left("late", False) == left("early", True) == -300.0
    assert left("late", True) == 600.0
    deadlines.gave_back("an-id")  # by this worker, which has not run it
    assert left("late", True) == -300.0


def test_without_any_there_is_nothing_to_look_up():
    assert not Deadlines(dict.fromkeys(KINDS)).are_declared


@pytest.mark.parametrize("bad", [0, -1, "5", True, math.nan])
def test_what_a_task_declares_must_be_seconds(bad):
    with pytest.raises(BadOption, match=r"fair_timeout_seconds of a: expected seconds over 0"):
        Deadlines({}).learn({"a": SimpleNamespace(fair_timeout_seconds=bad, acks_late=False)})


# failing, beside the loop


class Request:
    """The part of Celery's request that dispatching and failing look at."""

    task = SimpleNamespace(name="shop.answer", app=SimpleNamespace(set_current=lambda: None))
    name, id, expires, delivery_info = "shop.answer", "an-id", None, None
    _already_revoked = False

    def __init__(self, lane=None, ready_at=0.0, timeout=None) -> None:
        more = f' {{"timeout_seconds":{timeout}}}' if timeout else ""
        headers = {"fair": f"interactive {ready_at!r}{more}"}
        self._message = SimpleNamespace(headers=headers, fair_lane=lane, delivery_info={})

    def revoked(self):
        return False


@pytest.fixture
def failed(monkeypatch):
    """What was failed and what was acknowledged after it, without any Celery."""
    seen = SimpleNamespace(failed=[], settled=[])
    monkeypatch.setattr(internals, "fail_unrun", lambda r, error: seen.failed.append(r))
    monkeypatch.setattr(internals, "settle_unrun", lambda r, error: seen.settled.append(r))
    monkeypatch.setattr(internals, "forget_request", lambda r: None)
    monkeypatch.setattr(internals, "may_be_revoked", lambda r: False)
    return seen


def timed_out(lane):
    held = lane.hold(Request(lane), NOW, NOW, NOW, Deadline(NOW, 1.0))
    return TimedOut(lane, held, QueueTimeout(INTERACTIVE, 2.0, 1.0))


def test_it_is_failed_in_a_thread_and_then_told_to_the_loop(failed):
    done = threading.Event()
    failing = Failing(done.set)
    lane = Lane(INTERACTIVE, NOW, 10)
    one = timed_out(lane)
    failing.fail(one)
    assert done.wait(5)
    failing.stop(5)
    assert failed.failed == [one.held.request]
    assert failing.settled() == [one]
    assert failing.settled() == []


def test_what_cannot_be_told_is_logged_and_settled_all_the_same(monkeypatch, caplog):
    def broken(request, error):
        raise ConnectionError("no result backend")

    monkeypatch.setattr(internals, "fail_unrun", broken)
    done = threading.Event()
    failing = Failing(done.set)
    failing.fail(timed_out(Lane(INTERACTIVE, NOW, 10)))
    assert done.wait(5)
    failing.stop(5)
    assert len(failing.settled()) == 1
    assert "shop.answer[an-id] timed out in its queue, and that can't be told" in caplog.text


def test_what_was_not_begun_as_it_stops_is_left_to_the_broker(failed, monkeypatch):
    monkeypatch.setattr(Failing, "_begin", lambda self: None)
    failing = Failing(lambda: None)
    failing._thread = threading.Thread(target=lambda: None)
    failing._thread.start()
    failing.fail(timed_out(Lane(INTERACTIVE, NOW, 10)))
    failing.stop(5)
    assert failing.settled() == []


def test_what_a_lost_connection_has_brought_is_left_to_the_broker(failed):
    failing = Failing(lambda: None)
    lane = Lane(INTERACTIVE, NOW, 10)
    one = timed_out(lane)
    lane.close()
    failing._run_one(one)
    assert failed.failed == []


def test_a_hook_that_ends_the_thread_it_runs_in_ends_nothing(failed, monkeypatch, caplog):
    def hook(request, error):
        raise SystemExit

    monkeypatch.setattr(internals, "fail_unrun", hook)
    woken = threading.Semaphore(0)
    failing = Failing(woken.release)
    for _ in range(3):
        failing.fail(timed_out(Lane(INTERACTIVE, NOW, 10)))
        assert woken.acquire(timeout=5)
    failing.stop(5)
    assert len(failing.settled()) == 3


def test_a_lane_takes_no_more_while_so_many_of_its_own_are_being_failed(failed, monkeypatch):
    monkeypatch.setattr(Failing, "_begin", lambda self: None)
    failing = Failing(lambda: None)
    ending = TimingOut(failing, Counts(OUTCOMES, DROPS))
    lanes = [Lane(kind, NOW, 10) for kind in KINDS]
    for lane in lanes:
        lane.grant(5, NOW)
    both = [timed_out(lane) for lane in lanes for _ in range(FAILING_LIMIT)]
    for one in both:
        one.lane.held.clear()
        ending.end(one.lane, one.held, NOW)
    assert [lane.room() for lane in lanes] == [0, 0]
    failing.done.extend(both[:FAILING_LIMIT])  # those of the first lane are done
    ending.settle()
    assert [lane.room() for lane in lanes] == [5, 0]
    failing.done.extend(both[FAILING_LIMIT:])
    ending.settle()
    assert [lane.room() for lane in lanes] == [5, 5]
    assert all(lane.asked_at > NOW for lane in lanes)  # silent until now, since not asked


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_what_is_being_failed_once_and_leaves_no_lock_shut(monkeypatch):
    monkeypatch.setattr(failing, "FORK_SECONDS", 0.05)
    held_by_parent = threading.RLock()
    monkeypatch.setattr(failing, "_working", held_by_parent)
    holding, release = threading.Event(), threading.Event()

    def hold():
        with failing._working:
            holding.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(5)
    failing._before_fork()
    assert failing._hangs
    failing._after_fork()
    failing._after_fork_in_child()
    assert failing._working is not held_by_parent
    failing._working = held_by_parent
    release.set()
    thread.join()
    failing._before_fork()
    failing._after_fork()
    assert not failing._hangs
    assert held_by_parent.acquire(blocking=False)
    held_by_parent.release()


# looking for it at the broker


def found(waited_seconds, timeout_seconds=None):
    """A message whose call may have said how long it may wait."""
    ready_at = time.time() - waited_seconds
    header = FairHeader(BATCH, ready_at, ready_at, timeout_seconds=timeout_seconds)
    return SimpleNamespace(
        headers={"fair": header.as_line(), "task": "a", "id": "an-id"}, delivery_info={}
    )


@pytest.fixture
def lane():
    """Its queue has messages, and was never seen empty."""
    lane = Lane(BATCH, time.monotonic(), 10)
    lane.doubtful = True
    return lane


@pytest.fixture
def probing():
    probing = Probing(Arrivals(), lambda: probing.granted.append(probing.kinds))
    probing.granted = []
    probing.deadlines = Deadlines({BATCH: 5.0})
    return probing


def test_a_lane_without_credit_gets_some_to_look_where_something_may_be_overdue(probing, lane):
    probing.look({BATCH: lane}, time.monotonic())
    assert probing.credit(lane, 0, probing.kinds) == PROBE_CREDIT
    assert lane.probing
    assert probing.credit(lane, 3, probing.kinds) == 3  # it looks anyway
    assert not lane.probing


def test_nothing_is_looked_for_without_a_timeout_or_a_message(probing, lane):
    probing.deadlines = Deadlines({})
    probing.look({BATCH: lane}, time.monotonic())
    assert probing.credit(lane, 0, probing.kinds) == 0
    probing.deadlines = Deadlines({BATCH: 5.0})
    lane.doubtful = False
    probing.look({BATCH: lane}, time.monotonic())
    assert probing.credit(lane, 0, probing.kinds) == 0


def test_an_overdue_message_is_kept_and_the_next_is_looked_at(probing, lane):
    probing.look({BATCH: lane}, time.monotonic())
    assert not probing.ends(lane, found(waited_seconds=6.0))
    assert probing.kinds == {BATCH}


def test_one_that_may_wait_ends_the_look_until_it_may_not(probing, lane):
    probing.look({BATCH: lane}, time.monotonic())
    assert probing.ends(lane, found(waited_seconds=2.0))
    assert probing.granted == [frozenset()]  # the credit is taken back at once
    probing.look({BATCH: lane}, time.monotonic())
    assert probing.kinds == frozenset()
    probing.look({BATCH: lane}, time.monotonic() + 3.0)
    assert probing.kinds == {BATCH}


def test_one_that_may_wait_for_ever_is_not_looked_at_all_the_time(probing, lane):
    probing.deadlines = Deadlines({})
    message = found(2.0, timeout_seconds=0.01)
    assert not probing.ends(lane, message)  # and so the lane may have some that are overdue
    assert probing.ends(lane, found(2.0))
    probing.look({BATCH: lane}, time.monotonic() + 0.9 * PROBE_SECONDS)
    assert probing.kinds == frozenset()
    probing.look({BATCH: lane}, time.monotonic() + 1.1 * PROBE_SECONDS)
    assert probing.kinds == {BATCH}


# decided once


TRIES = 100_000


class RacingPool(Pool):
    """Runs what it is given at once."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(num_processes=2))

    def is_running(self) -> bool:
        return True


def test_a_task_that_timed_out_never_also_runs(failed, monkeypatch):
    """Loop, tick and finishing tasks in threads of their own, on deadlines that pass meanwhile."""
    ran = []
    dispatcher = Dispatcher(
        Policy(PolicySettings(reserve=0), slots=2, now=time.monotonic()),
        RacingPool(),
        lambda request: _run(dispatcher, request, ran),
        lambda seconds, callback: None,
        lambda queue: INTERACTIVE,
    )
    dispatcher.slots.on_free = lambda: None
    lanes = {kind: Lane(kind, time.monotonic(), 10) for kind in KINDS}
    dispatcher.connect(lanes, {kind: Window(lane, None) for kind, lane in lanes.items()})
    requests = []
    stop = threading.Event()
    threads = [
        threading.Thread(target=_repeat, args=[stop, call])
        for call in (dispatcher.tick, dispatcher.pump, dispatcher.end_overdue)
    ]
    for thread in threads:
        thread.start()
    for number in range(TRIES):
        # A microsecond to thirty milliseconds before or after the moment at which it is looked at.
        timeout = 10.0 + (-1) ** number * 1e-6 * 2 ** (number % 16)
        request = Request(lanes[INTERACTIVE], time.time() - 10.0, timeout)
        requests.append(request)
        dispatcher.on_task_request(request)
    wait(lambda: len(ran) + len(failed.settled) >= TRIES)
    stop.set()
    for thread in threads:
        thread.join()
    dispatcher.timing_out.stop(5)
    assert len(ran) > TRIES / 100
    assert len(failed.settled) > TRIES / 100
    assert sorted(map(id, [*ran, *failed.settled])) == sorted(map(id, requests))


def _run(dispatcher, request, ran):
    ran.append(request)
    request.fair_slot.outcome = "succeeded"
    request.fair_slot.release()


def _repeat(stop, call):
    while not stop.is_set():
        call()
        time.sleep(0)


def wait(fact, seconds=60.0):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.001)
