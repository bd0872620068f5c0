"""Admission: what is asked, what is refused, and what never is."""

from __future__ import annotations

import functools
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.backends.base import Backend
from kombu.utils.json import dumps, loads

from celery_fair import Fair, FairError, QueueFull, UnknownKind, job_task
from celery_fair.admission import Admission
from celery_fair.admission.backlog import Backlog
from celery_fair.admission.rate import Workers
from celery_fair.jobs.memory_store import MemoryStore
from celery_fair.policy import Member
from celery_fair.worker.fleet import Fleet, digest
from celery_fair.worker.links import Answer


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeLink:
    """A broker with so many messages ready; an exception is one that can't be asked."""

    def __init__(self) -> None:
        self.ready: dict[str, int] | BaseException = {}
        self.said: dict[str, str] = {}
        self.asked = 0
        self.closed = 0

    def ask(self, queues: Any, member: Any) -> Answer:
        self.asked += 1
        if isinstance(self.ready, BaseException):
            raise self.ready
        return Answer({queue: self.ready.get(queue, 0) for queue in queues}, {})

    def words(self) -> dict[str, str]:
        return dict(self.said)

    def close(self) -> None:
        self.closed += 1


class Broker:
    def __init__(self, fair: Fair) -> None:
        self.clock, self.link = Clock(), FakeLink()
        fair.admission = Admission(fair, Backlog(fair, lambda _: self.link, self.clock))  # type: ignore[arg-type, return-value]


def limited(app: Celery, **settings: Any) -> tuple[Fair, Broker]:
    fair = Fair(app, **settings)
    return fair, Broker(fair)


def word(sequence: int, mean: float = 0.5, **more: Any) -> str:
    said = {"queues": digest(["celery", "celery.batch"]), "sequence": sequence, "slots": 4}
    means = {"interactive_mean_seconds": mean, "batch_mean_seconds": 2.0}
    return json.dumps({**said, **means, **more})


FULL = {"celery": 10, "celery.batch": 10}


def test_an_error_says_what_waits_what_may_and_what_to_do() -> None:
    error = QueueFull("batch", 120, 100, 7.0)
    assert isinstance(error, FairError)
    assert (error.kind, error.backlog, error.limit, error.retry_after_seconds) == (
        *("batch", 120, 100),
        7.0,
    )
    assert error.limited_by == "backlog"
    assert str(error) == (
        "not published: 120 batch tasks wait, and 100 may; try again in 7 s, add workers, or raise "
        "batch_max_backlog"
    )
    waits = QueueFull("interactive", 120, 10.0, 7.0, 24.0)
    assert waits.limited_by == "wait"
    assert "would wait about 24 s, and may wait 10 s" in str(waits)


@pytest.mark.parametrize("wait", [None, 24.0])
def test_it_survives_pickling_and_a_result_backend(wait: float | None) -> None:
    error = QueueFull("batch", 120, 100, 7.0, wait)
    again = pickle.loads(pickle.dumps(error))
    remade = QueueFull(*loads(dumps(error.args)))
    assert vars(again) == vars(remade) == vars(error)


def test_no_limit_asks_no_broker_and_loads_no_worker() -> None:
    code = (
        "import sys; from celery import Celery; from celery_fair import Fair\n"
        "fair = Fair(Celery(broker='memory://')); fair.app.send_task('x'); fair.admit('batch')\n"
        "print(fair.admission.backlog.reads, [m for m in sys.modules if 'fair.worker' in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "0 []\n"


def test_a_full_kind_is_refused_and_the_other_is_not(app: Celery, sent: Any) -> None:
    fair, broker = limited(app, batch_max_backlog=10, kinds={"b": "batch"})
    broker.link.ready = FULL
    app.send_task("i")
    with pytest.raises(QueueFull) as caught:
        app.send_task("b")
    assert (caught.value.kind, caught.value.backlog, caught.value.limit) == ("batch", 10, 10)
    broker.clock.now += 0.1
    broker.link.ready = {"celery.batch": 9}
    app.send_task("b")
    assert [message.task for message in sent()] == ["i", "b"]
    facts = fair.admission.facts()
    assert facts.admitted == {"batch": 1}
    assert facts.refused == {("batch", "backlog"): 1}
    assert facts.blind == {"batch": 0}


def test_the_lane_decides_as_routing_does(app: Celery, sent: Any) -> None:
    _, broker = limited(app, batch_max_backlog=5, queues={"batch": ["b1", "b2"]})
    broker.link.ready = {"b1": 3, "b2": 2}
    with pytest.raises(QueueFull):
        app.send_task("x", queue="b2")
    with pytest.raises(QueueFull):
        app.send_task("x", kind="batch")
    app.send_task("x", queue="unmapped", kind="batch")  # nobody counts what waits there
    app.send_task("x")
    assert [message.queue for message in sent()] == ["celery", "unmapped"]


def test_a_process_counts_what_it_published_since_the_last_reading(app: Celery) -> None:
    _, broker = limited(app, interactive_max_backlog=5)
    for _ in range(5):
        app.send_task("x")
    with pytest.raises(QueueFull):
        app.send_task("x")
    assert broker.link.asked == 1


def test_it_reads_at_most_ten_times_a_second(app: Celery) -> None:
    fair, broker = limited(app, interactive_max_backlog=10_000)
    for _ in range(1000):
        fair.admit("interactive")
        broker.clock.now += 0.001
    assert 9 <= broker.link.asked <= 10


def test_an_old_reading_says_nothing(app: Celery) -> None:
    fair, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = FULL
    with pytest.raises(QueueFull):
        fair.admit("interactive")
    broker.link.ready = {}
    broker.clock.now += 60
    fair.admit("interactive")


def test_without_its_broker_it_admits_counts_and_asks_less_and_less(
    app: Celery, caplog: Any
) -> None:
    fair, broker = limited(app, batch_max_backlog=1)
    broker.link.ready = ConnectionError("gone")
    asked = []
    for _ in range(1200):  # two minutes
        fair.admit("batch")
        if not asked or broker.link.asked != asked[-1][1]:
            asked.append((broker.clock.now, broker.link.asked))
        broker.clock.now += 0.1
    waits = [later[0] - earlier[0] for earlier, later in pairwise(asked)]
    assert waits[0] == pytest.approx(0.5, abs=0.11)
    assert max(waits) == pytest.approx(30, abs=0.2)
    assert fair.admission.facts().blind == {"batch": 1200}
    assert caplog.text.count("can't be read (ConnectionError: gone)") == 1
    broker.link.ready = FULL
    broker.clock.now += 30
    with pytest.raises(QueueFull):
        fair.admit("batch")


def test_a_connection_that_was_closed_while_idle_is_made_anew(app: Celery, caplog: Any) -> None:
    fair, broker = limited(app, batch_max_backlog=1)
    fair.admit("batch")
    closed, answers = broker.link, FakeLink()
    answers.ready = FULL
    closed.ready = ConnectionError("closed")
    broker.link = answers
    broker.clock.now += 60
    with pytest.raises(QueueFull):
        fair.admit("batch")
    assert (closed.closed, caplog.text) == (1, "")


def test_a_reading_that_is_broken_off_leaves_no_answer_for_the_next(app: Celery) -> None:
    fair, broker = limited(app, batch_max_backlog=1)
    broken = broker.link
    broken.ready = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        fair.admit("batch")
    assert broken.closed == 1
    broker.link = FakeLink()
    broker.link.ready = FULL
    broker.clock.now += 0.1
    with pytest.raises(QueueFull):
        fair.admit("batch")


def test_a_fork_leaves_its_parents_connection_alone(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair, broker = limited(app, batch_max_backlog=1)
    fair.admit("batch")
    parents, broker.link = broker.link, FakeLink()
    broker.link.ready = FULL
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(QueueFull):
        fair.admit("batch")
    assert (parents.asked, parents.closed) == (1, 0)


def test_one_thread_reads_and_the_others_wait_only_without_a_value(app: Celery) -> None:
    fair, broker = limited(app, batch_max_backlog=1)
    fair.admit("batch")
    reading, go_on = threading.Event(), threading.Event()
    ask = broker.link.ask

    def ask_slowly(*args: Any) -> Answer:
        reading.set()
        assert go_on.wait(10)
        return ask(*args)

    broker.link.ask = ask_slowly  # type: ignore[method-assign]
    broker.clock.now += 0.1
    reader = threading.Thread(target=fair.admit, args=["batch"])
    reader.start()
    assert reading.wait(10)
    fair.admit("batch")  # at once, by the last value
    go_on.set()
    reader.join(10)
    assert broker.link.asked == 2


def test_an_unknown_kind_is_an_error(fair: Fair) -> None:
    with pytest.raises(UnknownKind):
        fair.admit("slow")  # type: ignore[arg-type]


def test_a_broker_that_cannot_be_counted_admits_and_says_so_once(app: Celery, caplog: Any) -> None:
    fair = Fair(app, batch_max_backlog=1)
    fair.admission = Admission(fair, Backlog(fair, lambda _: None))
    for _ in range(3):
        fair.admit("batch")
    assert fair.admission.facts().blind == {"batch": 3}
    assert caplog.text.count("can't be counted") == 1


def test_the_wait_is_the_backlog_over_what_the_workers_can_start(app: Celery) -> None:
    fair, broker = limited(app, interactive_max_wait_seconds=1.0)
    broker.link.ready = {"celery": 7}
    broker.link.said = {"w": word(1)}
    fair.admit("interactive")
    broker.clock.now += 2.0
    broker.link.said = {"w": word(2)}  # it is alive
    with pytest.raises(QueueFull) as caught:  # 4 slots * 0.8 / 0.5 s = 6.4 a second
        fair.admit("interactive")
    assert caught.value.limited_by == "wait"
    assert caught.value.limit == 1.0
    assert caught.value.wait_seconds == pytest.approx(7 / 6.4)
    assert caught.value.retry_after_seconds == 1.0
    broker.clock.now += 0.1
    broker.link.ready = {"celery": 6}
    fair.admit("interactive")


def test_without_a_rate_no_wait_is_known_and_it_admits(app: Celery) -> None:
    fair, broker = limited(app, interactive_max_wait_seconds=0.1)
    broker.link.ready = {"celery": 1000}
    broker.link.said = {"dead": word(7)}  # Redis keeps it
    for _ in range(10):
        fair.admit("interactive")
        broker.clock.now += 2.0
    assert fair.admission.facts().blind == {"interactive": 10}


def rate(fair: Fair, *words: tuple[str, dict[str, Any]], kind: Any = "interactive") -> float | None:
    workers = Workers(fair)
    for sequence in (1, 2):
        workers.hear({name: word(sequence, **said) for name, said in words}, float(sequence))
    return workers.rate(kind, 3.0)


def test_workers_of_one_kind_give_it_all_their_slots(fair: Fair) -> None:
    only = {"queues": digest(["celery"])}
    assert rate(fair, ("a", only)) == pytest.approx(8)
    assert rate(fair, ("a", only), ("b", {"mean": 0.0})) == pytest.approx(8 + 6.4)
    assert rate(fair, ("a", {"queues": digest(["celery.batch"])})) is None
    assert rate(fair, ("a", {}), kind="batch") == pytest.approx(4 * 0.2 / 2.0)


def test_words_of_other_apps_and_of_liars_are_left_out(fair: Fair) -> None:
    other = digest(["another"])
    assert rate(fair, ("a", {"queues": other}), ("b", {"slots": "4"}), ("c", {"slots": -1})) is None
    workers = Workers(fair)
    for text in ("", "[]", "{", "null", "9" * 5000, "[" * 4000, '{"slots": NaN}', '{"queues": {}}'):
        workers.hear({"x": text}, 1.0)
    assert workers.rate("interactive", 1.0) is None


def test_a_silent_worker_counts_no_more(fair: Fair) -> None:
    workers = Workers(fair)
    for sequence in (1, 2):
        workers.hear({"w": word(sequence)}, 0.0)
    assert workers.rate("interactive", 8.0) == pytest.approx(6.4)
    assert workers.rate("interactive", 8.1) is None


def test_the_words_are_understood_that_workers_say(fair: Fair) -> None:
    """Fronts included, which a worker consumes beside its queues."""
    speaker, workers = Fleet("w"), Workers(fair)
    member = Member("w", 4, 0, 0, interactive_mean_seconds=0.5, batch_mean_seconds=2.0)
    for now in (1.0, 2.0):
        queues = ["celery.batch", "celery", "celery.front", "celery.batch.front"]
        workers.hear({"w": speaker.word(member, queues, uncleared={"batch": 3})}, now)
    assert workers.rate("interactive", 2.5) == pytest.approx(4 * 0.8 / 0.5)
    assert (workers.uncleared("batch", 2.5), workers.uncleared("interactive", 2.5)) == (3, 0)


def test_what_waits_in_workers_for_a_place_is_of_the_backlog(app: Celery) -> None:
    """A broker no longer counts it; else each worker would let its room full more in."""
    fair, broker = limited(app, batch_max_backlog=100, interactive_max_backlog=100)
    broker.link.ready = {"celery.batch": 30}
    fair.admit("batch")
    for sequence in (1, 2):
        broker.link.said = {name: word(sequence, uncleared={"batch": 64}) for name in "ab"}
        broker.clock.now += 2.0
        fair.admit("interactive")
    with pytest.raises(QueueFull) as caught:
        fair.admit("batch")
    assert caught.value.backlog == 30 + 64 + 64
    broker.clock.now += 60.0  # and those of the dead are at the broker again
    fair.admit("batch")


@pytest.mark.parametrize(
    "said", [None, 64, [64], {"batch": -64}, {"batch": None}, {"batch": float("inf")}, {"x": 1}]
)
def test_no_word_makes_a_backlog_less_or_an_error(fair: Fair, said: Any) -> None:
    workers = Workers(fair)
    for sequence in (1, 2):
        workers.hear({"w": word(sequence, uncleared=said)}, 0.0)
    assert workers.uncleared("batch", 0.0) == 0


def test_how_long_to_wait_follows_the_slope_where_nothing_else_is_known(app: Celery) -> None:
    fair, broker = limited(app, batch_max_backlog=10)
    broker.link.ready = {"celery.batch": 109}
    with pytest.raises(QueueFull) as first:
        fair.admit("batch")
    assert first.value.retry_after_seconds == 5.0
    broker.clock.now += 1
    broker.link.ready = {"celery.batch": 99}
    with pytest.raises(QueueFull) as second:
        fair.admit("batch")
    assert second.value.retry_after_seconds == pytest.approx(9.0)  # 90 too many, 10 a second
    broker.clock.now += 29
    broker.link.ready = {"celery.batch": 10**6}
    with pytest.raises(QueueFull) as third:
        fair.admit("batch")
    assert third.value.retry_after_seconds == 5.0


def test_eager_calls_ask_nobody(make_app: Callable[..., Celery]) -> None:
    app = make_app(task_always_eager=True)
    _, broker = limited(app, interactive_max_backlog=1)
    broker.link.ready = FULL

    @app.task
    def x() -> int:
        return 1

    assert x.delay().get() == 1
    assert broker.link.asked == 0


def test_what_a_running_task_publishes_is_never_refused(
    app: Celery, working: Any, recorded: Any
) -> None:
    _, broker = limited(app, interactive_max_backlog=10)

    @app.task(bind=True, shared=False, max_retries=1)
    def parent(self: Any) -> None:
        broker.link.ready = FULL
        child.delay()
        group(child.si(), child.si()).delay()
        chord([child.si(), child.si()])(child.si())
        if not self.request.retries:
            raise self.retry(countdown=0)

    @app.task(shared=False)
    def child() -> None:
        pass

    with working(app) as log:
        result = parent.apply_async(link=child.si())
        result.get(timeout=10, disable_sync_subtasks=False)
    assert len(log.of("parent")) == 2
    assert len(log.of("child")) >= 2 * 5
    broker.clock.now += 0.1
    with pytest.raises(QueueFull):
        child.delay()


def test_errbacks_and_bodies_of_a_parent_are_never_refused(app: Celery) -> None:
    _, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = FULL
    app.send_task("x", parent_id="p")
    with pytest.raises(QueueFull):
        app.send_task("x")


def test_a_job_is_let_in_with_its_first_chunks_or_refused_whole(app: Celery, sent: Any) -> None:
    fair, broker = limited(app, batch_max_backlog=10)
    fair.jobs._store = MemoryStore()

    @job_task(name="each")
    def each(item: int) -> None:
        """Do nothing."""

    broker.link.ready = {"celery.batch": 9}
    fair.submit_job(each, range(20))
    assert len(sent()) == 20
    with pytest.raises(QueueFull):
        fair.submit_job(each, range(20))
    assert len(fair.list_jobs()) == 1
    assert not sent()


def test_a_refused_request_may_be_sent_again(app: Celery) -> None:
    """Nothing of it is left behind, also where its publish had begun already."""
    _, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = FULL
    for _ in range(2):
        broker.clock.now += 0.1
        with pytest.raises(QueueFull):
            app.send_task("x", request_id="r1")
    broker.link.ready = {}
    broker.clock.now += 0.1
    app.send_task("x", request_id="r1")


def test_switched_off_it_refuses_nothing(app: Celery) -> None:
    fair, broker = limited(app, enabled=False, interactive_max_backlog=1)
    broker.link.ready = FULL
    fair.admit("interactive")
    app.send_task("x")
    assert broker.link.asked == 0


@pytest.fixture(params=["counts", "polls"])
def tasks(request: Any, app: Celery, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the signature of a task, with a backend that counts chords or one that doesn't."""
    if request.param == "polls":
        unlock = functools.partial(Backend.apply_chord, app.backend)
        monkeypatch.setattr(app.backend, "apply_chord", unlock)

    @app.task(name="x", shared=False)
    def x(*_: Any) -> None:
        pass

    return x


CANVASES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "group": (lambda x: group(x.si() for _ in range(20)), 20),
    "group of one": (lambda x: group([x.si()]), 1),
    "group of groups": (lambda x: group(group(x.si(), x.si()), group(x.si(), x.si())), 4),
    "group of chains": (lambda x: group(chain(x.si(), x.si()), chain(x.si(), x.si())), 2),
    "chunks": (lambda x: x.chunks([(n,) for n in range(10)], 2), 5),
    "chord": (lambda x: chord([x.si() for _ in range(20)], x.si()), 20),
    "chord of one": (lambda x: chord([x.si()], x.si()), 1),
    "chord of chains": (lambda x: chord([chain(x.si(), x.si())] * 2, x.si()), 2),
    "chord without header": (lambda x: chord([], x.si()), 1),
    "chord with a group for a body": (lambda x: chord([x.si()] * 2, group(x.si(), x.si())), 2),
    "chain": (lambda x: chain(x.si(), x.si()), 1),
    "chain to a group": (lambda x: chain(x.si(), group(x.si(), x.si())), 1),
    "chain from a group": (lambda x: chain(group(x.si(), x.si()), x.si()), 2),
    "group of chords": (
        lambda x: group(chord([x.si()] * 2, x.si()), chord([x.si()] * 3, x.si()), x.si()),
        6,
    ),
    "chord of chords": (lambda x: chord([chord([x.si()] * 2, x.si()), x.si()], x.si()), 3),
}


@pytest.mark.parametrize("name", CANVASES)
def test_a_canvas_is_refused_whole(app: Celery, tasks: Any, sent: Any, name: str) -> None:
    fair, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = FULL
    with pytest.raises(QueueFull):
        CANVASES[name][0](tasks).apply_async()
    assert sent() == []
    assert sum(fair.admission.facts().refused.values()) == 1
    # And nothing is left behind for what is published next.
    broker.clock.now += 0.1
    broker.link.ready = {}
    tasks.delay()
    group(tasks.si(), tasks.si()).delay()
    assert [message.task for message in sent()] == ["x"] * 3


@pytest.mark.parametrize("name", CANVASES)
def test_a_canvas_is_admitted_whole(app: Celery, tasks: Any, sent: Any, name: str) -> None:
    fair, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = {"celery": 9}
    make, expected = CANVASES[name]
    make(tasks).apply_async()
    with_limit = sorted(message.task for message in sent())
    assert sum(task in ("x", "celery.starmap") for task in with_limit) == expected
    assert fair.admission.facts().admitted == {"interactive": 1}
    fair.uninstall()
    make(tasks).apply_async()
    assert sorted(message.task for message in sent()) == with_limit


def test_a_block_with_a_producer_is_no_canvas(app: Celery, tasks: Any, sent: Any) -> None:
    _, broker = limited(app, interactive_max_backlog=10)
    broker.link.ready = {"celery": 9}
    with app.producer_or_acquire() as producer:
        tasks.apply_async(producer=producer)
        with pytest.raises(QueueFull):
            tasks.apply_async(producer=producer)
    assert len(sent()) == 1


def test_each_group_is_asked_for_itself(app: Celery, tasks: Any, sent: Any) -> None:
    limited(app, interactive_max_backlog=10)
    group(tasks.si() for _ in range(10)).delay()
    with pytest.raises(QueueFull):
        group(tasks.si() for _ in range(10)).delay()
    assert len(sent()) == 10


def test_the_unlocking_of_a_chord_is_published_once_it_is_let_in(
    app: Celery, tasks: Any, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that of one whose publishing broke off isn't, with whatever is published next."""
    limited(app, interactive_max_backlog=100)
    polls = isinstance(app.backend.apply_chord, functools.partial)
    chord([tasks.si()] * 2, tasks.si())()
    assert [message.task for message in sent()].count("celery.chord_unlock") == polls
    with monkeypatch.context() as patch:
        patch.setattr(group, "apply_async", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            chord([tasks.si()] * 2, tasks.si())()
    group(tasks.si(), tasks.si()).delay()
    assert [message.task for message in sent()] == ["x", "x"]
