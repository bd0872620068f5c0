"""What becomes of a batch task by what the hook says of it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Exchange, Queue

from celery_fair.before import Admit, Delay, Refuse, Reroute
from celery_fair.headers import FairHeader
from celery_fair.policy.kinds import BATCH
from celery_fair.worker import internals
from celery_fair.worker.clearing import moving
from celery_fair.worker.clearing.hooking import AGAIN_SECONDS, MOST_MOVES, Hooking
from celery_fair.worker.clearing.moving import Move
from celery_fair.worker.clearing.needs import Needs
from celery_fair.worker.clearing.questions import Question
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.lanes import ROOM_LIMIT, Lane, make_held

HOLD_SECONDS = 30.0
QUEUE = "celery.batch"


class Asked:
    """`Questions` and `Moving`, without a thread: what they were given, and what they answer."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[Question] = []
        self.moves: list[Any] = []
        self.moved: list[Any] = []
        self.stuck = 0

    def ask(self, subject: Any, about: Any) -> None:
        self.asked.append((subject, about))

    def look(self, now: float) -> None:
        """Nothing hangs here."""

    def ended(self) -> list[Question]:
        found, self.answers = self.answers, []
        return found

    def move(self, move: Any) -> None:
        self.moves.append(move)

    def done(self) -> list[Any]:
        found, self.moved = self.moved, []
        return found


class Site:
    def __init__(
        self, on_error: str = "delay", consumes: Callable[[str], bool] = lambda queue: True
    ) -> None:
        self.by = Asked()
        self.refused: list[Any] = []
        self.cleared: list[Waiting] = []
        self.hooking = Hooking(
            self.by,
            self.by,
            on_error,
            lambda lane, held, error: self.refused.append(error),
            lambda: HOLD_SECONDS,
            consumes,
        )
        self.clearing = SimpleNamespace(
            is_paused=lambda waiting: False,
            clear=lambda waiting, now: self.cleared.append(waiting),
        )
        self.lane = Lane(BATCH, monotonic(), 100)

    def held(self, rerouted: int = 0, exchange: str = "") -> Waiting:
        header = FairHeader(BATCH, 1.0, 1.0, tenant="acme", rerouted=rerouted)
        message = SimpleNamespace(
            headers={"fair": header.as_line(), "retries": 2},
            delivery_info={"exchange": exchange, "routing_key": QUEUE},
        )
        request = SimpleNamespace(
            _message=message, id="an-id", args=(1,), kwargs={}, name="shop.report",
            task=SimpleNamespace(name="shop.report"), delivery_info={"routing_key": QUEUE},
        )  # fmt: skip
        held = make_held(request, 1.0, 1.0, monotonic())
        waiting = Waiting(self.lane, held, Needs((), 0, True))
        self.lane.put_off(waiting)
        self.hooking.ask(waiting)
        return waiting

    def say(self, waiting: Waiting, answer: Any, error: str | None = None) -> None:
        _, about = self.by.asked[-1]
        question = Question(waiting, about, monotonic())
        question.answer, question.error = answer, error
        self.by.answers.append(question)
        self.hooking.settle(self.clearing, monotonic())


@pytest.fixture
def site() -> Site:
    return Site()


def test_it_is_told_of_the_task_as_a_value(site):
    site.held()
    _, about = site.by.asked[0]
    assert (about.name, about.id, about.args, about.tenant) == (
        "shop.report",
        "an-id",
        (1,),
        "acme",
    )
    assert (about.queue, about.retries) == (QUEUE, 2)


def test_one_that_is_admitted_may_have_its_slot(site):
    waiting = site.held()
    site.say(waiting, Admit())
    assert site.cleared == [waiting]
    assert site.hooking.counts["admitted"] == 1


def test_a_short_delay_is_waited_for_here_and_then_it_is_asked_again(site):
    waiting = site.held()
    site.say(waiting, Delay(5.0))
    now = monotonic()
    site.hooking.tick(site.clearing, now)
    assert len(site.by.asked) == 1
    site.hooking.tick(site.clearing, now + 5.0)
    assert len(site.by.asked) == 2
    assert waiting.key in site.lane.uncleared


def test_a_long_delay_is_waited_for_at_the_broker(site):
    waiting = site.held()
    site.say(waiting, Delay(HOLD_SECONDS + 1.0))
    (move,) = site.by.moves
    assert (move.queue, move.seconds) == (None, HOLD_SECONDS + 1.0)
    assert not site.lane.uncleared
    assert site.lane.failing == 1


def test_a_full_room_sends_short_ones_there_too(site):
    every = [site.held() for _ in range(ROOM_LIMIT)]
    site.say(every[0], Delay(1.0))
    assert len(site.by.moves) == 1


def test_what_an_exchange_would_give_to_several_queues_waits_here(site):
    site.say(site.held(exchange="topics"), Delay(HOLD_SECONDS + 1.0))
    assert site.by.moves == []


def test_one_that_is_sent_on_is_settled_when_it_has_arrived(site, monkeypatch):
    settled: list[Any] = []
    monkeypatch.setattr(internals, "settle_moved", settled.append)
    waiting = site.held()
    site.say(waiting, Reroute("slow"))
    (move,) = site.by.moves
    assert settled == []
    site.by.moved.append(move)
    site.hooking.settle(site.clearing, monotonic())
    assert settled == [waiting.request]
    assert site.lane.failing == 0


def test_one_that_could_not_be_sent_on_waits_and_is_asked_again(site, caplog):
    waiting = site.held()
    site.say(waiting, Reroute("slow"))
    site.by.moved.append(site.by.moves[0]._replace(error="OSError: refused"))
    site.hooking.settle(site.clearing, monotonic())
    assert waiting.key in site.lane.uncleared
    assert "can't be sent on as before_batch wants (OSError: refused)" in caplog.text
    site.hooking.tick(site.clearing, monotonic() + AGAIN_SECONDS)
    assert len(site.by.asked) == 2


def test_one_that_is_refused_leaves_its_lane_and_fails(site):
    waiting = site.held()
    site.say(waiting, Refuse("no account"))
    assert [error.reason for error in site.refused] == ["no account"]
    assert not site.lane.uncleared


@pytest.mark.parametrize(
    ("rerouted", "queue", "why"),
    [
        (0, QUEUE, "to the queue that it came by"),
        (MOST_MOVES, "slow", f"after {MOST_MOVES} others"),
    ],
)
def test_a_way_that_leads_nowhere_is_a_failure(site, rerouted, queue, why):
    waiting = site.held(rerouted=rerouted)
    site.say(waiting, Reroute(queue))
    assert site.by.moves == []
    assert why in waiting.said["error"]
    assert site.hooking.counts["failed"] == 1


def test_what_came_by_a_front_goes_not_to_its_queue_and_may_go_to_another_called_so():
    """A worker that consumes ``store.front`` and not ``store`` has no front before it."""
    for consumed, moves in ((QUEUE, 0), ("else", 1)):
        site = Site(consumes=consumed.__eq__)
        waiting = site.held()
        waiting.request._message.delivery_info["routing_key"] = f"{QUEUE}.front"
        waiting.request.delivery_info["routing_key"] = f"{QUEUE}.front"
        site.say(waiting, Reroute(QUEUE))
        assert len(site.by.moves) == moves
        site = Site(consumes=consumed.__eq__)
        site.say(site.held(), Reroute(QUEUE))
        assert site.by.moves == []


@pytest.mark.parametrize("on_error", ["admit", "delay", "refuse"])
def test_a_failure_is_what_the_setting_makes_of_it(on_error):
    site = Site(on_error)
    waiting = site.held()
    site.say(waiting, None, "it raised OSError")
    assert bool(site.cleared) is (on_error == "admit")
    assert bool(site.refused) is (on_error == "refuse")
    assert (waiting.key in site.lane.uncleared) is (on_error != "refuse")
    assert waiting.said["error"] == "it raised OSError"


def test_the_answer_for_one_that_is_gone_is_nobodys(site):
    waiting = site.held()
    site.lane.close()
    site.say(waiting, Admit())
    assert site.cleared == []


def test_a_queue_of_a_topic_exchange_is_reached_by_its_name_and_no_other_is():
    app = Celery(set_as_current=False)
    topic = Queue("long", Exchange("docs", type="topic"), routing_key="docs.#")
    app.conf.task_queues = [topic, Queue("all", Exchange("news", type="fanout"))]
    fair = SimpleNamespace(app=app)
    said = moving._destination(fair, None, Move(None, "long", 0.0))
    assert (said["exchange"].name, said["routing_key"]) == ("", "long")
    assert [queue.name for queue in said["declare"]] == ["long"]
    assert moving._destination(fair, None, Move(None, "all", 0.0))["exchange"].name == "news"


@pytest.mark.parametrize(("came_by", "goes_to"), [("long.front", "long"), ("own.front",) * 2])
def test_what_waits_for_its_time_goes_behind_a_front_but_not_behind_a_queue_called_so(
    came_by, goes_to
):
    app = Celery(set_as_current=False)
    app.conf.task_queues = [Queue("long"), Queue("own.front")]
    request = SimpleNamespace(delivery_info={"routing_key": came_by})
    said = moving._destination(SimpleNamespace(app=app), request, Move(None, None, 5.0))
    assert said["routing_key"] == goes_to
