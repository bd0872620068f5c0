"""What one worker makes of the orders that come, with the parts that follow them as they are."""

from __future__ import annotations

import time
from threading import Event, RLock, Thread, current_thread
from types import SimpleNamespace

import pytest

from celery_fair.observe.steering import settings_facts
from celery_fair.observer import Observers
from celery_fair.policy import Policy
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.settings import FairSettings
from celery_fair.steering import EVERYBODY, Order, Orders
from celery_fair.worker.deadlines import Deadlines
from celery_fair.worker.ordering import fair_order, fair_pause, fair_resume
from celery_fair.worker.pausing import Pausing
from celery_fair.worker.steering import Steering
from celery_fair.worker.steering.spreading import Spreading

SLOTS = 4


def order(name, value=None, *, on=True, counter=1, scope=EVERYBODY, at=None):
    at = time.time() if at is None else at
    return Order(scope, name, on, value, counter, f"id{counter}", "ann@ops", at)


class Scheduler:
    """A worker's, as far as its steering knows it; no broker, and nothing is held."""

    def __init__(self, *queues, **settings):
        self.started_at = 1.0
        self.c = _consumer(queues)
        self.fair = SimpleNamespace(
            settings=FairSettings(**settings), observers=Observers(), kind_of_queue=_kind_of_queue,
            adopt=lambda settings: setattr(self.fair, "settings", settings),
        )  # fmt: skip
        self.policy = Policy(self.fair.settings.policy(1), slots=SLOTS, now=0.0)
        self.lanes = {}
        self.dispatcher = SimpleNamespace(
            tenants=SimpleNamespace(go_by=lambda settings: None),
            lock=RLock(), lanes=self.lanes, pausing=Pausing(), time_limits={},
            probing=SimpleNamespace(deadlines=Deadlines(self.fair.settings.timeouts)),
            grant=lambda: None, wake=lambda: None,
        )  # fmt: skip
        self.switching = SimpleNamespace(enforcing=True)
        self.measuring = SimpleNamespace(sensor=SimpleNamespace(interval_seconds=0.25))
        self.task_log = SimpleNamespace(sample=lambda part: None)

    def policy_settings(self, settings):
        return settings.policy(1)

    def tell_change(self):
        pass


def _consumer(names):
    queues = {name: SimpleNamespace(routing_key=name) for name in names}
    amqp = SimpleNamespace(queues=type("Queues", (dict,), {"consume_from": dict(queues)})(queues))
    return SimpleNamespace(
        hostname="w1@test", app=SimpleNamespace(amqp=amqp), task_consumer=object(),
        controller=SimpleNamespace(max_concurrency=SLOTS, concurrency=SLOTS),
        call_soon=lambda callback: None, add_task_queue=None, cancel_task_queue=None,
    )  # fmt: skip


def _kind_of_queue(name):
    return BATCH if name == "reports" else INTERACTIVE


@pytest.fixture
def scheduler():
    return Scheduler("celery", "reports", "celery.batch", batch_timeout_seconds=10.0)


@pytest.fixture
def steering(scheduler):
    return Steering(scheduler)


def test_a_retry_in_the_front_of_a_queue_has_not_waited_while_that_was_paused(scheduler, steering):
    now = time.time()
    steering.receive([order("pause:batch:reports", now - 100)])
    steering.receive([order("pause:batch:reports", now - 100, on=False, counter=2)])
    message = SimpleNamespace(delivery_info={"routing_key": "reports.front"})
    of = scheduler.dispatcher.probing.deadlines.of
    deadline = of(BATCH, "summarize", "an-id", message, None, 100.0, 0.0)
    assert deadline.at == pytest.approx(10.0, abs=1.0)


def test_who_is_paused_again_soon_after_has_waited_in_neither_pause(scheduler, steering):
    now = time.time()
    for counter, (on, at) in enumerate([(True, 100), (False, 50), (True, 48), (False, 2)], start=1):
        began = now - (100 if at >= 50 else 48)
        steering.receive([order("pause:batch", began, on=on, counter=counter, at=now - at)])
    message = SimpleNamespace(delivery_info={"routing_key": "celery.batch"})
    of = scheduler.dispatcher.probing.deadlines.of
    deadline = of(BATCH, "summarize", "an-id", message, None, 101.0, 0.0)
    assert deadline.at == pytest.approx(10.0 - 5.0, abs=1.0)


def test_an_order_that_could_not_be_followed_stands_in_the_way_of_no_other(steering):
    steering.receive([order("set:reserve", 9)])
    assert "at most" in steering.live.refused["reserve"]
    assert steering.refusal([order("pause:batch", counter=2)]) is None
    assert steering.refusal([order("set:log_tasks", 0.5, counter=2)]) is None
    assert "at most" in (steering.refusal([order("set:reserve", 8, counter=2)]) or "")


def test_an_order_that_comes_during_a_tick_of_another_thread_is_not_lost(steering):
    """Without a loop of Celery's timers have a thread, and commands come in the main one."""
    ticking, told = Event(), Event()

    class Slow(Orders):
        def merge(self, orders, counter=0):
            if current_thread() is tick:
                ticking.set()
                told.wait(0.2)
            return super().merge(orders, counter)

    steering.orders, tick = Slow(), Thread(target=steering.receive, args=[[]])
    tick.start()
    ticking.wait(5)
    steering.receive([order("pause:batch")])
    told.set()
    tick.join(5)
    assert len(steering.orders) == 1


def test_the_next_worker_of_a_process_begins_with_what_the_app_says(scheduler, steering):
    steering.receive([order("set:batch_share", 0.3)])
    assert scheduler.fair.settings.batch_share == 0.3
    steering.stop()
    assert scheduler.fair.settings == steering.live.base
    assert settings_facts(Steering(scheduler))["settings"].keys() == {"batch_timeout_seconds"}


# What is told by `celery control`


@pytest.fixture
def state(scheduler, steering):
    """What Celery gives a command."""
    scheduler.steering = steering
    steering.keeping = SimpleNamespace(keep=lambda orders: None)
    return SimpleNamespace(consumer=SimpleNamespace(controller=SimpleNamespace(fair=scheduler)))


@pytest.mark.parametrize("queue", ["re\nports", "\x1b[2J", "r" * 400])
def test_an_order_that_others_could_not_read_is_none(state, steering, queue):
    assert "expected an order" in fair_pause(state, "interactive", queue)["error"]
    assert len(steering.orders) == 0


def test_a_queue_is_not_paused_as_one_of_another_kind(state, steering):
    assert (
        "'reports' is batch here, not interactive"
        in (fair_pause(state, "interactive", "reports")["error"])
    )
    assert fair_pause(state, "batch", "reports") == {"ok": "batch from reports running → paused"}
    assert fair_resume(state, "batch", "reports") == {"ok": "batch from reports paused → running"}


@pytest.mark.parametrize("name", ["state_url", "tenant_hash_key", "nonsense"])
def test_what_cant_be_set_live_is_told_to_nobody(name):
    scheduler = Scheduler("celery", state_url="redis://:secret@host/1", tenant_hash_key="s" * 16)
    assert Steering(scheduler).report([f"set:{name}"])["about"] == {f"set:{name}": None}


def test_a_queue_that_is_not_consumed_here_is_refused_by_name(state, steering):
    assert fair_pause(state, "interactive", "celry") == {
        "error": "this worker doesn't consume 'celry'; did you mean 'celery'?"
    }
    steering.receive([order("pause:interactive:gone", 1.0)])
    assert "ok" in fair_resume(state, "interactive", "gone"), "another worker has paused it"


def test_who_asks_is_answered_though_a_command_asks_meanwhile(state, steering):
    """Only another worker's answer, with all that is known here, makes this one's needless."""
    told = []
    steering.spreading = Spreading("w1@test", lambda command, *_: told.append(command))
    steering.receive([order("pause:batch"), order("pause:interactive")])
    news = order("pause:batch", counter=2).as_list()
    every = [one.as_list() for one in steering.orders]
    for number, asked in enumerate([
        {"about": ["pause:batch"]}, {"orders": [news], "check": True}, {"orders": every},
    ]):  # fmt: skip
        steering.spreading.asked()
        steering.spreading.tick(steering.orders, 10.0 * number)
        fair_order(state, **asked)
        for tenths in range(3):
            steering.spreading.tick(steering.orders, 10.0 * number + tenths / 10)
    assert told == ["fair_order"] * 2
