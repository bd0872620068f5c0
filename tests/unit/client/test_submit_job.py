"""``Fair.submit_job``: what it refuses, what it publishes, and what becomes of the items."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

import pytest
from celery import chain, group
from kombu.utils.json import dumps

from celery_fair import BadOption, Fair, JobConflict, QueueFull, StateAway, job_task
from celery_fair.jobs import producing
from celery_fair.jobs.leases import Leases
from celery_fair.jobs.memory_store import MemoryStore
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.producing import Producer


@pytest.fixture
def store(fair):
    """A store in memory, for an app whose workers are elsewhere."""
    fair.jobs._store = MemoryStore()
    return fair.jobs._store


@pytest.fixture
def double(fair):
    @job_task(name="double")
    def double(n):
        return 2 * n

    return double


@pytest.fixture
def eager_fair(make_app):
    return Fair(make_app(task_always_eager=True))


@pytest.fixture
def note(eager_fair):
    """A job task that notes its items, but for "bad", in ``note.seen``."""
    seen = []

    @job_task(name="note")
    def note(item):
        if item == "bad":
            raise ValueError("as asked")
        seen.append(item)

    note.seen = seen
    return note


# What can't be


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"chunk_items": 0}, r"chunk_items=…\): expected a whole number from 1 to 1000, got 0"),
        ({"chunk_items": 2.5}, "expected a whole number"),
        ({"chunk_seconds": 0}, r"chunk_seconds=…\): expected a number from 0.01 to 3600, got 0"),
        ({"chunk_seconds": "1"}, "expected a number"),
        ({"chunk_seconds": float("nan")}, "expected a number"),
        ({"backlog": 0}, "backlog"),
        ({"ahead": True}, "ahead"),
        ({"total": -1}, "total"),
        ({"max_failures": -1}, "max_failures"),
        ({"max_failures": 2.5}, "a number of items, or a part of them under 1, got 2.5"),
        ({"progress_seconds": 0}, "progress_seconds"),
        ({"keep_seconds": 1}, "keep_seconds"),
        ({"results": "yes"}, "results"),
        ({"id": "a b"}, "up to 128 letters, digits"),
        ({"id": ""}, "up to 128 letters"),
        ({"id": 7}, "up to 128 letters"),
        ({"countdown": 5}, "expected an option of kind, .*, got 'countdown'"),
        ({"prioritiy": 5}, "did you mean 'priority'"),
        ({"headers": {"a": object()}}, "options that JSON can hold"),
        ({"on_finish": "shop.done"}, r"on_finish=…\): expected a task or a signature"),
        ({"kind": "slow"}, "expected 'interactive' or 'batch'"),
    ],
)
def test_what_a_job_can_not_be_is_refused_before_anything_is_kept(
    fair, store, double, sent, asked, message
):
    with pytest.raises(ValueError, match=message):
        fair.submit_job(double, [1], **asked)
    assert not store.list()
    assert not sent()


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("report.txt", r"pathlib\.Path"),
        (b"abc", r"pathlib\.Path"),
        ({"a": 1}, "in an order"),
        ({1, 2}, r"sorted\(…\)"),
        (7, "a list, a generator, a path or an open text file"),
    ],
)
def test_what_has_no_items_in_an_order_is_refused(fair, store, double, items, message):
    with pytest.raises(BadOption, match=message):
        fair.submit_job(double, items)
    assert not store.list()


def test_a_binary_file_is_refused(fair, store, double, tmp_path):
    (tmp_path / "items").write_bytes(b"1\n")
    with (tmp_path / "items").open("rb") as file, pytest.raises(BadOption, match="as text"):
        fair.submit_job(double, file)


def test_only_a_job_task_can_be_submitted(fair, store, app):
    @app.task(name="plain")
    def plain(n):
        """Do nothing."""

    for task in (plain, "plain", "nobody.knows", len):
        with pytest.raises(BadOption, match="made by @job_task"):
            fair.submit_job(task, [1])


def test_an_item_that_json_cannot_hold_is_named_by_its_index_and_not_shown(
    fair, store, double, sent
):
    class Secret:
        def __repr__(self):
            return "4711"

    with pytest.raises(BadOption, match=r"item 1: expected what JSON can hold") as caught:
        fair.submit_job(double, [1, Secret()])
    assert "4711" not in str(caught.value)
    assert not store.list()
    assert not sent()


# What is published


def test_no_more_tickets_wait_than_the_backlog_and_they_say_no_more_than_the_job(
    fair, store, double, sent
):
    job = fair.submit_job(double, range(100), backlog=5, chunk_items=2, id="j1")
    tickets = sent()
    assert len(tickets) == 5
    for ticket in tickets:
        assert (ticket.task, ticket.queue, ticket.kind) == ("double", "celery.batch", "batch")
        assert ticket.headers["fair_job"] == job.id == "j1"
        assert ticket.headers["ignore_result"] is True
        assert ticket.headers["argsrepr"] == "()"
        assert ticket.header.timeout_seconds == 1e9


def test_a_job_of_few_items_needs_no_more_tickets_than_items(fair, store, double, sent):
    fair.submit_job(double, [1, 2, 3])
    assert len(sent()) == 3


def test_its_options_are_those_of_each_chunk(fair, store, double, sent):
    fair.submit_job(
        double,
        [1],
        queue="own",
        tenant="acme",
        request_id="r1",
        headers={"trace": "t1"},
        time_limit=30,
        kind="interactive",
    )
    (ticket,) = sent()
    assert ticket.queue == "own"
    assert (ticket.header.tenant, ticket.header.request_id) == ("acme", "r1")
    assert ticket.kind == "interactive"
    assert ticket.headers["trace"] == "t1"
    assert ticket.headers["timelimit"] == [30, None]


def test_none_of_its_chunks_expires_before_it_has_run(fair, store, sent):
    @job_task(name="hasty", expires=60)
    def hasty(n):
        """Do nothing."""

    fair.submit_job(hasty, [1])
    (ticket,) = sent()
    assert ticket.headers["expires"] is None


def test_whose_work_it_is_comes_from_around_the_call(fair, store, double, sent):
    with fair.inherit("interactive", tenant="acme", request_id="r1"):
        fair.submit_job(double, [1])
    (ticket,) = sent()
    assert ticket.kind == "batch"  # as its decorator says
    assert (ticket.header.tenant, ticket.header.request_id) == ("acme", "r1")


def test_a_tenant_is_hashed_once_and_kept_nowhere_in_clear(make_app):
    app = make_app()
    fair = Fair(app, tenant_hash_key="0123456789abcdef0123456789abcdef")
    store = fair.jobs._store = MemoryStore()

    @job_task(name="one")
    def one(n):
        """Do nothing."""

    from tests.unit.client.conftest import take

    one.apply_async((1,), tenant="acme")
    (plain,) = take(app)
    job = fair.submit_job(one, [1], tenant="acme")
    (ticket,) = take(app)
    assert ticket.header.tenant == plain.header.tenant != "acme"
    assert "acme" not in dumps(store.plan(job.id).options)


def test_a_full_backlog_refuses_a_job_that_would_be_kept_in_the_call(
    fair, store, double, monkeypatch
):
    def full(kind):
        raise QueueFull(kind, 10, 10, 1.0)

    monkeypatch.setattr(fair, "admit", full)
    with pytest.raises(QueueFull):
        fair.submit_job(double, [1])
    assert not store.list()


def test_tickets_that_can_not_be_published_stay_due(fair, store, double, app, monkeypatch, caplog):
    def refuse(*args, **options):
        raise OSError("no broker")

    monkeypatch.setattr(app, "send_task", refuse)
    job = fair.submit_job(double, [1, 2])
    assert "could not be published (OSError: no broker)" in caplog.text
    assert job.progress().state == "running"
    assert not job.progress().submitting


# Again


def test_the_same_job_twice_is_one(fair, store, double, sent):
    fair.submit_job(double, [1, 2], id="j1", chunk_items=1)
    assert fair.submit_job(double, [1, 2], id="j1").progress().submitted == 2
    assert len(sent()) == 2


def test_other_items_under_the_same_id_contradict_it(fair, store, double):
    fair.submit_job(double, [1, 2], id="j1")
    for items in ([1], [1, 2, 3]):
        with pytest.raises(JobConflict):
            fair.submit_job(double, items, id="j1")


def test_another_task_under_the_same_id_contradicts_it(fair, store, double):
    @job_task(name="other")
    def other(n):
        """Do nothing."""

    fair.submit_job(double, [1], id="j1")
    with pytest.raises(JobConflict):
        fair.submit_job(other, [1], id="j1")


# More than are kept at once


def test_what_is_not_a_list_a_thread_goes_over_no_further_than_ahead(fair, store, double):
    pulled = []

    def items():
        for n in range(50):
            pulled.append(n)
            yield n

    job = fair.submit_job(double, items(), ahead=10)
    with pytest.raises(TimeoutError, match="still being submitted"):
        job.wait_submitted(0.3)
    assert len(pulled) <= 11
    assert job.progress().submitted == 10
    job.cancel("enough")
    job.wait_submitted(5)


def test_a_producer_publishes_again_what_a_full_backlog_has_refused(
    fair, store, double, sent, app, monkeypatch
):
    send, refused, waited = app.send_task, [], []

    def full_at_first(*args, **options):
        if len(refused) < 3:
            refused.append(1)
            raise QueueFull("batch", 9, 9, 1.0)
        return send(*args, **options)

    monkeypatch.setattr(app, "send_task", full_at_first)
    monkeypatch.setattr(producing.time, "sleep", waited.append)
    fair.submit_job(double, iter([1, 2])).wait_submitted(5)
    assert waited == [1.0, 2.0, 4.0]
    assert len(sent()) == 2


def test_a_producer_lives_while_its_source_rests(fair, store, double, monkeypatch):
    monkeypatch.setattr("celery_fair.jobs.leases.RENEW_SECONDS", 0.001)
    monkeypatch.setattr("celery_fair.jobs.producing.leases", Leases())
    beats = threading.Event()
    append = store.append

    def watch(job, first, items):
        if (first, items) == (0, []) and resting.is_set():
            beats.set()
        return append(job, first, items)

    resting = threading.Event()

    def items():
        resting.set()
        beats.wait(5)
        yield 1

    monkeypatch.setattr(store, "append", watch)
    fair.submit_job(double, items()).wait_submitted(5)
    assert beats.is_set()


def test_a_store_that_is_away_is_waited_for_in_a_thread_and_by_no_web_request(
    fair, store, double, monkeypatch, caplog
):
    monkeypatch.setattr(producing.time, "sleep", lambda _: None)
    append, away = store.append, [1] * 5

    def flaky(*args):
        if away:
            away.pop()
            raise StateAway
        return append(*args)

    monkeypatch.setattr(store, "append", flaky)
    job = fair.submit_job(double, iter([1, 2]), id="j1")
    job.wait_submitted(5)
    assert job.progress().submitted == 2
    assert caplog.text.count("job j1 waits for the state") == 1
    away.append(1)
    with pytest.raises(StateAway):
        fair.submit_job(double, [1, 2], id="j2")
    assert fair.submit_job(double, [1, 2], id="j2").progress().state == "running"


def test_a_producer_whose_store_has_lost_items_adds_no_wrong_ones(fair, store, double):
    def source():
        yield from range(producing.BLOCK_ITEMS)
        kept = store._jobs["j"]  # as a Redis that was killed has written a part of it
        kept.submitted, kept.items = 100, {index: kept.items[index] for index in range(100)}
        yield "another"

    job = fair.submit_job(double, source(), id="j")
    with pytest.raises(JobConflict, match="got 100: its Redis has lost some; submit the same item"):
        job.wait_submitted(10.0)
    assert job.progress().submitted == 100
    fair.submit_job(double, iter(range(600)), id="j").wait_submitted(10.0)
    kept = store._jobs["j"].items
    assert [kept[index] for index in (0, 99, 100, 599)] == ["0", "99", "100", "599"]


def test_a_source_that_fails_pauses_its_job_and_the_same_call_goes_on(eager_fair, note):
    broken = True

    def items():
        yield from "abc"
        if broken:
            raise OSError("the disk")
        yield from "de"

    with pytest.raises(OSError, match="the disk"):
        eager_fair.submit_job(note, items(), id="j1")
    paused = eager_fair.job("j1").progress()
    assert (paused.state, paused.submitting) == ("paused", True)
    assert paused.reason == "its items ended early: OSError"
    broken = False
    job = eager_fair.submit_job(note, items(), id="j1")
    assert job.progress().state == "finished"
    assert sorted(note.seen) == list("abcde")


def test_what_was_paused_by_somebody_stays_so(fair, store, double, sent):
    fair.submit_job(double, [1, 2], id="j1").pause("by hand")
    sent()
    assert fair.submit_job(double, [1, 2], id="j1").progress().reason == "by hand"
    assert not sent()


def test_the_error_of_a_source_in_a_thread_is_raised_where_it_is_waited_for(fair, store, double):
    def items():
        yield 1
        raise OSError("the disk")

    job = fair.submit_job(double, items())
    with pytest.raises(OSError, match="the disk"):
        job.wait_submitted(5)
    assert job.progress().reason == "its items ended early: OSError"


def test_a_source_of_fewer_items_than_there_are_contradicts_the_job(fair, store, double):
    fair.submit_job(double, iter([1, 2, 3]), id="j1").wait_submitted(5)
    with pytest.raises(JobConflict):
        fair.submit_job(double, iter([1]), id="j1").wait_submitted(5)


def test_the_thread_of_a_producer_ends_with_its_items_and_keeps_a_script_alive(fair, store, double):
    gate = threading.Event()

    def items():
        yield 1
        gate.wait(5)

    job = fair.submit_job(double, items(), id="alive")
    (thread,) = [one for one in threading.enumerate() if one.name == "celery-fair-job-alive"]
    assert not thread.daemon
    gate.set()
    job.wait_submitted(5)
    thread.join(5)
    assert not thread.is_alive()


SCRIPT = """
import itertools, signal, sys, time
from celery import Celery
from celery_fair import Fair, job_task
from celery_fair.jobs.memory_store import MemoryStore

# Ctrl-C may be ignored around the tests, and then by what they start as well.
signal.signal(signal.SIGINT, signal.default_int_handler)
fair = Fair(Celery("script", broker="memory://"))
fair.jobs._store = MemoryStore()

@job_task(name="noop")
def noop(item):
    pass

def items():
    for n in itertools.count() if sys.argv[1] != "few" else range(3):
        time.sleep(0.1)
        yield n
    print("all", flush=True)

job = fair.submit_job(noop, items(), ahead=10)
print("submitting", flush=True)
if sys.argv[1] == "waits":
    job.wait()
"""


@pytest.fixture
def script():
    started = []

    def start(how):
        command = [sys.executable, "-c", SCRIPT, how]
        started.append(subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True))
        assert started[-1].stdout.readline() == "submitting\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_script_that_has_ended_goes_on_until_all_is_submitted(script):
    out, _ = script("few").communicate(timeout=20)
    assert out == "all\n"


@pytest.mark.parametrize("how", ["waits", "ends"])
def test_ctrl_c_ends_a_script_and_its_producer(script, how):
    process = script(how)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0 or how == "ends"


def test_a_call_waits_for_no_room_in_a_job_that_was_submitted_with_less_of_it(fair, store, double):
    store.create(Plan(id="j1", task="double", ahead=1))
    store.append("j1", 0, ["0"])
    job = fair.submit_job(double, [0, 1, 2], id="j1")
    assert job.progress().submitting
    job.cancel()
    job.wait_submitted(10)


@pytest.mark.parametrize("how", ["path", "file"])
def test_the_lines_of_a_file_are_items_without_their_ends(eager_fair, note, tmp_path, how):
    path = Path(tmp_path / "items.txt")
    path.write_bytes("eins\nzwei ü\r\n\ndrei".encode())
    if how == "path":
        eager_fair.submit_job(note, path)
    else:
        with path.open(encoding="utf-8") as file:
            eager_fair.submit_job(note, file)
    assert note.seen == ["eins", "zwei ü", "", "drei"]


def test_a_dead_producer_is_followed_by_one_that_skips_what_is_there(fair, store, double):
    """Wherever it died: after each count of items the next ends up with the same job."""
    for died_after in range(8):
        id = f"j{died_after}"

        class Died(BaseException):
            """As a kill would."""

        def items(died_after=died_after, died=Died):
            for n in range(7):
                if n == died_after:
                    raise died
                yield n

        fair.jobs.store.create(_plan(fair, double, id))
        producer = Producer(fair.jobs, fair.jobs.store.plan(id), items())
        producer._pause = lambda error: None  # which a killed one can't
        if died_after < 7:
            with pytest.raises(Died):
                producer.run()
        job = fair.submit_job(double, iter(range(7)), id=id)
        job.wait_submitted(5)
        assert job.progress().total == 7


def _plan(fair, task, id):
    from celery_fair.jobs.plan import Plan

    return Plan(id, task.name, {"kind": "batch"})


# Callbacks


def test_callbacks_are_called_with_the_progress(eager_fair, note):
    called = []
    app = eager_fair.app

    @app.task(name="told")
    def told(progress, *more):
        called.append((progress["state"], progress["done"], *more))

    @app.task(name="quiet")
    def quiet(*args):
        called.append(args)

    eager_fair.submit_job(note, ["ab"], on_finish=told)
    eager_fair.submit_job(note, ["a"], on_finish=told.s("more"))
    eager_fair.submit_job(note, ["a"], on_finish=quiet.si("alone"))
    assert called == [("finished", 1), ("finished", 1, "more"), ("alone",)]


def test_on_progress_is_called_as_the_job_goes_on_and_no_more_often_than_asked(eager_fair, note):
    called = []
    clock = iter(range(1000, 100_000))  # a second each time that the store looks
    eager_fair.jobs._store = MemoryStore(lambda: float(next(clock)))

    @eager_fair.app.task(name="told")
    def told(progress):
        called.append((progress["done"], progress["last_at"]))

    eager_fair.submit_job(
        note, range(40), chunk_items=1, on_progress=told, progress_seconds=20
    ).wait(5)
    assert 3 <= len(called) < 20
    times = [at for _, at in called]
    assert all(later - earlier >= 15 for earlier, later in pairwise(times))


def test_work_is_chained_after_a_job_by_any_canvas(eager_fair, note):
    called = []
    app = eager_fair.app

    @app.task(name="done")
    def done(progress):
        return progress["done"]

    @app.task(name="tell")
    def tell(value, label):
        called.append((label, value))

    eager_fair.submit_job(note, ["a", "b"], on_finish=chain(done.s(), tell.s("chain")))
    eager_fair.submit_job(note, ["a"], on_finish=group(tell.si(1, "x"), tell.si(2, "y")))
    assert called == [("chain", 2), ("x", 1), ("y", 2)]


def test_too_many_failures_pause_the_job_and_call_on_failures(eager_fair, note):
    called = []

    @eager_fair.app.task(name="alarm")
    def alarm(progress):
        called.append((progress["state"], progress["failed"]))

    job = eager_fair.submit_job(
        note, ["bad"] * 10, max_failures=3, on_failures=alarm, chunk_items=1
    )
    assert called == [("paused", 4)]
    assert job.progress().state == "paused"


def test_an_eager_job_that_stands_keeps_nobody_waiting(eager_fair, note):
    with pytest.raises(JobConflict, match="paused and full"):
        eager_fair.submit_job(note, iter(["bad"] * 20), id="j1", ahead=10, max_failures=0)
    found = eager_fair.job("j1").progress()
    assert (found.state, found.submitted, found.failed) == ("paused", 11, 1)


# And retried


def test_failed_items_alone_are_retried_as_often_as_wanted(eager_fair, note):
    job = eager_fair.submit_job(note, ["a", "bad", "b"])
    assert job.progress().state == "finished with failures"
    assert job.retry_failed() == 1
    (failure,) = job.failures()
    assert (failure.index, failure.times) == (1, 2)
    assert note.seen == ["a", "b"]


# Switched off


def test_switched_off_jobs_still_run_as_plain_celery_would_run_them(make_app):
    from tests.unit.client.conftest import take

    app = make_app()
    fair = Fair(app, enabled=False)
    fair.jobs._store = MemoryStore()

    @job_task(name="one")
    def one(n):
        """Do nothing."""

    job = fair.submit_job(one, [1], tenant="acme", results=True)
    (ticket,) = take(app)
    assert (ticket.queue, ticket.header) == ("celery", None)
    one.apply((), task_id=ticket.headers["id"], headers={"fair_job": job.id})
    assert job.progress().state == "finished"
