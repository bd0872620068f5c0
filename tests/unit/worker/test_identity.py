"""Of two copies of one task one runs: what the state decides, and what the worker makes of it."""

from __future__ import annotations

import logging
import threading
import time
from types import SimpleNamespace

import fakeredis
import pytest
from redis.exceptions import OutOfMemoryError, ResponseError

from celery_fair.errors import SettingsError
from celery_fair.headers import FairHeader
from celery_fair.identity import scripts
from celery_fair.identity.scripts import DONE, OVER, RETRYING, WAITING
from celery_fair.internals import Connected
from celery_fair.policy.kinds import INTERACTIVE
from celery_fair.state import State
from celery_fair.worker import copies as copies_module
from celery_fair.worker import internals
from celery_fair.worker.copies import RENEW_SECONDS, Copies
from celery_fair.worker.noting import Noting
from celery_fair.worker.slots import Slots
from tests.brokers.waiting import wait_until


class Redis:
    """Of this process; it can be away."""

    def __init__(self):
        self.client = fakeredis.FakeRedis()
        self.is_there = True
        self.calls = 0
        self.state = State(self.connect)

    def connect(self):
        return Connected(SimpleNamespace(
            register_script=self.script, pipeline=self.pipeline
        ), "", lambda: None)  # fmt: skip

    def script(self, text):
        self._answer()
        return self.client.register_script(text)

    def pipeline(self, **options):
        self._answer()
        return self.client.pipeline(**options)

    def _answer(self):
        self.calls += 1
        if not self.is_there:
            raise ConnectionError("refused")

    def ask(self, call):
        self.is_there = True
        return State(self.connect).call(call)

    def claim(self, id="id-1", keep=60.0, alone=False):
        call = scripts.claim(
            "digest", id, keep_seconds=keep, wait_seconds=1000.0, alone=alone, at=1000.0
        )
        found, word, _ = (part.decode() for part in self.ask(call))
        return found, word

    def claim_many(self, number):
        """Requests of their own; gives their tasks' ids."""
        ids = [f"id-{one}" for one in range(number)]
        for id in ids:
            call = scripts.claim(id, id, keep_seconds=60, wait_seconds=99, alone=False, at=0.0)
            self.ask(call)
        return ids

    def start(self, copy, attempt=0, id="id-1"):
        return bool(self.ask(scripts.start(id, copy, attempt)))

    def end(self, copy, ending, attempt=0, id="id-1"):
        return self.ask(scripts.end(id, copy, attempt, ending))

    def set(self, id="id-1", **fields):
        self.client.hset(f"_celery_fair.copies.{id}", mapping=fields)

    def of(self, id="id-1"):
        found = self.client.hgetall(f"_celery_fair.copies.{id}")
        return {key.decode(): value.decode() for key, value in found.items()}

    def copy_is_sent(self):
        self.set(twin_at=0)
        assert self.claim("another")[1] == "twin"

    def is_silent(self):
        self.set(until=0)


@pytest.fixture
def redis():
    return Redis()


# what the state decides


def test_the_first_of_two_copies_to_start_runs(redis):
    redis.claim()
    assert redis.start("one")
    assert not redis.start("two")


def test_a_redelivery_of_the_one_that_runs_runs_again(redis):
    redis.claim()
    assert redis.start("one")
    assert redis.start("one")


def test_what_nobody_knows_runs(redis):
    assert redis.start("one")
    assert redis.of() == {}


def test_another_copy_runs_once_the_worker_is_silent_and_then_the_first_does_not(redis):
    redis.claim()
    redis.start("one")
    redis.is_silent()
    assert redis.start("two")
    assert not redis.start("one")


@pytest.mark.parametrize("ending", [DONE, OVER])
def test_a_copy_that_comes_after_the_end_is_dropped(redis, ending):
    redis.claim()
    redis.copy_is_sent()
    redis.start("two")
    redis.end("two", ending)
    assert not redis.start("one")
    assert redis.client.ttl("_celery_fair.copies.id-1") > 80_000  # a backlog may be deep


def test_it_is_dropped_though_the_request_was_sent_anew(redis):
    redis.claim()
    redis.copy_is_sent()
    redis.start("two")
    redis.end("two", OVER)
    assert redis.claim("id-2") == ("id-2", "first")
    assert not redis.start("one")
    assert redis.start("new", id="id-2")


def test_what_was_discarded_while_it_waited_is_over_for_all_copies(redis):
    redis.claim()
    redis.copy_is_sent()
    redis.end("one", OVER)
    assert not redis.start("two")


def test_a_copy_that_was_discarded_ends_nothing_that_another_has_begun(redis):
    redis.claim()
    redis.start("two")
    redis.end("one", OVER)
    assert redis.of()["state"] == "running"


def test_a_result_answers_for_its_time(redis):
    redis.claim(keep=5.0)
    redis.start("one")
    redis.end("one", DONE)
    assert redis.claim("id-2") == ("id-1", "done")
    assert 0 < redis.client.pttl("_celery_fair.request.digest") <= 5000
    redis.client.delete("_celery_fair.request.digest")  # as it will
    assert redis.claim("id-2") == ("id-2", "first")


def test_a_retry_runs_and_an_old_attempt_does_not(redis):
    redis.claim()
    redis.start("one")
    redis.end("one", RETRYING)
    assert redis.claim("id-2") == ("id-1", "retrying")
    assert not redis.start("two")
    assert redis.start("one", attempt=1)
    assert not redis.start("one", attempt=0)


@pytest.mark.parametrize(
    ("retries", "yields", "attempt"), [(0, 0, 0), (2, 0, 2), (0, 3, 3), (2, 3, 5), (None, 1, 1)]
)
def test_each_continuation_is_an_attempt_of_its_own_as_each_retry_is(retries, yields, attempt):
    """So that of a continuation and the message it came from, both sent, the older is dropped."""
    line = FairHeader("batch", 1e9, 1e9, once="one", yields=yields).as_line()
    headers = {"retries": retries, "fair": line}
    request = SimpleNamespace(_message=SimpleNamespace(headers=headers))
    assert copies_module._attempt(request) == attempt


def test_a_retry_may_start_before_its_attempt_is_told_to_have_ended(redis):
    redis.claim()
    redis.start("one")
    assert redis.start("one", attempt=1)
    redis.end("one", RETRYING)
    assert redis.of()["state"] == "running"
    redis.end("one", DONE, attempt=1)
    assert redis.of()["state"] == "done"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_retry_that_was_revoked_as_it_came_ends_the_request(redis, is_told):
    redis.claim()
    redis.start("one")
    if is_told:
        redis.end("one", RETRYING)
    redis.end("one", OVER, attempt=1)
    redis.end("one", RETRYING)  # told late: it begins nothing again
    assert redis.claim("id-2") == ("id-2", "first")


def test_another_copys_end_or_an_attempts_before_ends_no_retry(redis):
    redis.claim()
    redis.start("one", attempt=1)
    redis.end("one", RETRYING, attempt=1)
    redis.end("two", OVER, attempt=2)
    redis.end("one", OVER, attempt=1)
    redis.end("one", OVER, attempt=0)
    assert redis.claim("id-2") == ("id-1", "retrying")


def test_one_that_comes_again_waits_again(redis):
    redis.claim()
    redis.start("one")
    redis.end("one", WAITING)
    assert redis.claim("id-2")[0] == "id-1"
    assert redis.start("one")


def test_one_that_may_expire_has_no_copy_even_after_its_worker_died(redis):
    redis.claim(alone=True)
    redis.set(twin_at=0)
    assert redis.claim("id-2") == ("id-1", "waiting")
    redis.start("one")
    redis.is_silent()
    assert redis.claim("id-2") == ("id-2", "first")


def test_every_key_expires(redis):
    redis.claim()
    redis.start("one")
    redis.ask(scripts.renew("id-1", "one", 0))
    for ending in (RETRYING, WAITING, DONE):
        redis.set(state="running")
        redis.end("one", ending)
        assert all(redis.client.ttl(key) > 0 for key in redis.client.keys("*"))


def test_of_two_copies_never_both_run_in_a_thousand_races(redis):
    ids = redis.claim_many(1000)
    ran = []
    barrier = threading.Barrier(2)

    def worker(copy, ids):
        state = State(redis.connect)
        barrier.wait()
        ran.extend(id for id in ids if state.call(scripts.start(id, copy, 0)))

    threads = [threading.Thread(target=worker, args=("one", ids))]
    threads.append(threading.Thread(target=worker, args=("two", ids)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ran) == sorted(ids)


# what the worker makes of it


class Request:
    """The part of Celery's request that is looked at here."""

    def __init__(self, id="id-1", copy="one", retries=0, **task):
        self.id = id
        self.task = SimpleNamespace(**{"acks_late": False, "reject_on_worker_lost": None, **task})
        self.acknowledged = True
        self._already_revoked = False
        self._message = SimpleNamespace(headers={"retries": retries})
        if copy:
            self.fair_copy = copy


@pytest.fixture
def slots():
    return Slots()


@pytest.fixture
def copies(redis, slots):
    copies = Copies(lambda: redis.state)
    yield copies
    copies.seen = True
    copies.stop(slots)


def run(slots, request, outcome):
    slot = slots.take(INTERACTIVE, request, 0.0)
    slot.outcome = outcome
    slot.release()


def test_a_request_without_a_mark_is_not_asked_for(redis, copies):
    assert copies.may_run(Request(copy=None))
    assert redis.calls == 0


def test_a_mark_is_seen(copies):
    request = Request(copy=None)
    assert not copies.seen
    copies.mark(request, "one")
    assert copies.seen
    assert request.fair_copy == "one"


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ("succeeded", "done"),
        ("retried", "retrying"),
        ("yielded", "retrying"),
        ("requeued", "waiting"),
        ("cancelled", "waiting"),
        ("failed", None),
        ("time_limit", None),
        ("revoked", None),
        ("ignored", None),
        ("rejected", None),
        ("withdrawn", None),
        ("lost", None),
    ],
)
def test_what_each_outcome_means_for_the_request(redis, copies, slots, outcome, state):
    redis.claim()
    request = Request()
    assert copies.may_run(request)
    run(slots, request, outcome)
    copies.tick(slots, time.monotonic())
    wait_until(lambda: redis.of().get("state") == state, "the end to be told")
    assert (redis.claim("id-2")[0] == "id-2") == (state is None)


@pytest.mark.parametrize(
    ("acknowledged", "task"),
    [(False, {}), (True, {"acks_late": True, "reject_on_worker_lost": True})],
)
def test_one_whose_child_was_lost_waits_where_it_comes_again(
    redis, copies, slots, acknowledged, task
):
    redis.claim()
    request = Request(**task)
    request.acknowledged = acknowledged
    copies.may_run(request)
    run(slots, request, "lost")
    copies.tick(slots, time.monotonic())
    wait_until(lambda: redis.of()["state"] == "waiting", "the end to be told")


def test_one_that_was_failed_or_revoked_without_a_slot_is_over(redis, copies, slots, monkeypatch):
    known = [True]
    monkeypatch.setattr(internals, "is_known", lambda request: known[0])
    redis.claim()
    copies.may_run(Request())
    copies.tick(slots, time.monotonic())
    assert redis.of()["state"] == "running"  # it is being failed, or prefork has it parked
    known[0] = False
    copies.tick(slots, time.monotonic())
    wait_until(lambda: redis.of() == {}, "the end to be told")


def test_the_lease_of_one_that_runs_is_renewed(redis, copies, slots):
    redis.claim()
    request = Request()
    copies.may_run(request)
    slots.take(INTERACTIVE, request, 0.0)
    redis.set(until=1)
    copies.tick(slots, time.monotonic() + RENEW_SECONDS - 1)
    copies.tick(slots, time.monotonic() + RENEW_SECONDS + 1)
    wait_until(lambda: int(redis.of()["until"]) > time.time() * 1000, "the renewal")


def test_while_the_state_is_away_everything_runs_and_nobody_waits_for_it(redis, copies, slots):
    redis.claim()
    redis.is_there = False
    assert copies.may_run(Request())
    asked = redis.calls
    assert all(copies.may_run(Request(copy=str(n))) for n in range(100))
    assert redis.calls == asked
    redis.state._away_until = 1e-9  # the silence is over: still it isn't the loop that tries
    assert copies.may_run(Request())
    assert redis.calls == asked
    assert copies.unasked == 102


def test_what_began_while_it_was_away_is_told_when_it_is_back(redis, copies, slots):
    redis.claim()
    redis.is_there = False
    request = Request()
    copies.may_run(request)
    run(slots, request, "succeeded")
    copies.tick(slots, time.monotonic())
    redis.is_there = True
    wait_until(lambda: redis.of()["state"] == "done", "the end to be told")
    assert not redis.state.is_away
    assert not redis.start("two")


def test_without_a_redis_in_the_worker_all_run_and_it_is_said_once(caplog):
    def find():
        raise SettingsError(["no Redis"])

    copies = Copies(find)
    with caplog.at_level(logging.WARNING):
        assert all(copies.may_run(Request()) for _ in range(3))
    assert len(caplog.records) == 1


def test_while_a_worker_waits_for_its_last_tasks_they_keep_their_lease(
    redis, slots, copies, monkeypatch
):
    monkeypatch.setattr("celery_fair.worker.copies.RENEW_SECONDS", 0.0)
    redis.claim()
    request = Request()
    copies.may_run(request)
    slot = slots.take(INTERACTIVE, request, 0.0)
    redis.is_silent()
    copies.loop_ends(slots)
    wait_until(lambda: int(redis.of()["until"]) > time.time() * 1000, "the renewal")
    slot.outcome = "succeeded"
    slot.release()
    wait_until(lambda: redis.of()["state"] == "done", "the end to be told")


def test_under_solo_whose_loop_runs_the_task_it_keeps_its_lease_too(
    redis, slots, copies, monkeypatch
):
    monkeypatch.setattr("celery_fair.worker.copies.RENEW_SECONDS", 0.0)
    monkeypatch.setattr(internals, "is_known", lambda request: True)  # it has no slot at first
    copies.loop_begins(slots, runs_tasks=True)
    redis.claim()
    request = Request()
    copies.may_run(request)
    slot = slots.take(INTERACTIVE, request, 0.0)
    redis.is_silent()
    wait_until(lambda: int(redis.of()["until"]) > time.time() * 1000, "the renewal")
    slot.release()


def test_a_loop_that_ticks_needs_no_thread_until_there_is_something_to_tell(redis, slots, copies):
    copies.loop_begins(slots, runs_tasks=False)
    redis.claim()
    request = Request()
    copies.may_run(request)
    slot = slots.take(INTERACTIVE, request, 0.0)
    assert copies._noting._thread is None
    slot.release()


def test_what_has_ended_by_the_end_of_the_worker_is_told(redis, slots, copies):
    redis.claim()
    copies.seen = True
    request = Request()
    copies.may_run(request)
    run(slots, request, "succeeded")
    copies.stop(slots)
    assert redis.of()["state"] == "done"


def test_a_dropped_copy_leaves_celerys_book_to_the_one_that_runs(redis, copies, monkeypatch):
    told = []
    monkeypatch.setattr(internals, "drop_copy", lambda request, other: told.append(other))
    redis.claim()
    winner, loser = Request(), Request(copy="two")
    assert copies.may_run(winner)
    assert not copies.may_run(loser)
    copies.drop(loser)
    assert told == [winner]


def test_a_copy_can_be_dropped_while_the_noting_thread_takes_out_what_has_ended(
    redis, copies, monkeypatch
):
    class Ending(Request):
        """Another thread comes in whenever its id is read."""

        @property
        def id(self):
            copies._started.pop(self, None)
            return "another"

        @id.setter
        def id(self, value): ...

    told = []
    monkeypatch.setattr(internals, "drop_copy", lambda request, other: told.append(other))
    winner = Request()
    copies._started.update({Ending(): 0.0, Ending(): 0.0, winner: 0.0})
    copies.drop(Request(copy="two"))
    assert told == [winner]
    copies._started.clear()


# notes


@pytest.fixture
def noting(redis):
    noting = Noting(lambda: redis.state)
    yield noting
    noting.stop(1.0)


def test_a_look_that_fails_ends_no_thread_and_is_said_once(redis, noting, caplog, monkeypatch):
    monkeypatch.setattr("celery_fair.worker.noting.PAUSE_SECONDS", 0.001)
    looks = []

    def look():
        looks.append(1)
        raise RuntimeError("a slot of an unknown kind")

    redis.claim()
    redis.start("one")
    noting.meanwhile(look)
    noting.begin_to_look()
    wait_until(lambda: len(looks) > 2, "more looks")
    noting.note("it", scripts.end("id-1", "one", 0, DONE))
    wait_until(lambda: redis.of()["state"] == "done", "the end to be told")
    assert caplog.text.count("a slot of an unknown kind") == 1


def test_a_state_that_can_not_be_made_ends_no_thread(redis, caplog, monkeypatch):
    monkeypatch.setattr("celery_fair.worker.noting.PAUSE_SECONDS", 0.001)
    failures = [ValueError("no such port"), ValueError("no such port")]

    def find():
        if failures:
            raise failures.pop()
        return redis.state

    redis.claim()
    redis.start("one")
    noting = Noting(find)
    for _ in range(3):
        left = len(failures)
        noting.note("it", scripts.end("id-1", "one", 0, DONE))
        wait_until(lambda left=left: not left or len(failures) < left, "a try")
    wait_until(lambda: redis.of()["state"] == "done", "the end to be told")
    noting.stop(1.0)
    assert caplog.text.count("no such port") == 1


def test_without_a_redis_nothing_is_noted(redis):
    asked = []

    def find():
        asked.append(1)
        raise SettingsError(["no Redis"])

    copies = Copies(find)
    copies.dropped("id-1", "one", 0)
    wait_until(lambda: copies._noting._has_none, "the notes to be given up")
    copies.dropped("id-1", "one", 0)
    assert copies._noting._notes == {}
    assert copies._noting._thread.is_alive()
    copies._noting.stop(1.0)
    assert asked == [1]


@pytest.mark.parametrize("good", [0, 3])
def test_a_note_that_is_refused_is_dropped_and_the_others_are_told(redis, noting, caplog, good):
    noting._ended.set()  # no thread
    redis.client.set("_celery_fair.copies.bad", "no hash")
    noting.note("bad", scripts.end("bad", "one", 0, DONE))
    ids = redis.claim_many(good)
    for id in ids:
        redis.start("one", id=id)
        noting.note(id, scripts.end(id, "one", 0, DONE))
    assert noting.flush()
    assert noting._notes == {}
    assert [redis.of(id)["state"] for id in ids] == ["done"] * good
    assert redis.state.is_away == (not good)  # for one that answers nothing may be so
    assert "refuses a note" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        ResponseError("Error running script (call to f_0): @user_script:3: -OOM command not"),
        ResponseError("MISCONF Redis is configured to save RDB snapshots"),
    ],
)
def test_notes_that_redis_refuses_for_now_are_kept(redis, noting, monkeypatch, error):
    noting._ended.set()  # no thread
    ids = redis.claim_many(2)
    for id in ids:
        noting.note(id, scripts.renew(id, "one", 0))

    def execute(self, raise_on_error=True):
        return [error, b"1"]

    with monkeypatch.context() as patch:
        patch.setattr(fakeredis.FakeRedis().pipeline().__class__, "execute", execute)
        assert not noting.flush()
    assert len(noting._notes) == 2
    assert noting.flush()
    assert [redis.of(id)["state"] for id in ids] == ["running", "running"]


def test_of_one_thing_the_newest_note_counts_and_there_is_a_bound(redis, monkeypatch):
    most = 1000  # more than are told at once
    monkeypatch.setattr("celery_fair.worker.noting.MOST", most)
    redis.is_there = False
    noting = Noting(lambda: redis.state)
    noting._ended.set()  # no thread
    for number in range(most + 10):
        noting.note(number, scripts.renew(str(number), "one", 0))
        noting.note("same", scripts.renew("same", "one", number))
    assert len(noting._notes) == most
    assert not noting.flush()
    assert len(noting._notes) == most
    redis.is_there = True
    assert noting.flush()
    assert noting._notes == {}
