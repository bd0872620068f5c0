"""At most N tasks that use something run in all workers together, whatever becomes of a worker."""

from __future__ import annotations

import os
import signal

import pytest

from celery_fair.resources.store import LEASE_SECONDS
from tests.apps import sharing
from tests.apps.sharing import PLACES
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

SETTINGS = {"CELERY_FAIR__RESERVE": "0"}


@pytest.fixture
def app(broker):
    app = sharing.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def start(start_worker, request):
    def start(number=1, pool="prefork", slots=3, env=None, **options):
        return start_worker(
            "tests.apps.sharing",
            pool=pool,
            concurrency=slots,
            hostname=f"w{number}@test",
            env={**SETTINGS, **(env or {})},
            **options,
        )

    return start


def call(app, label, seconds=0.0, name="i.asks"):
    return app.tasks[name].apply_async((label, seconds))


def most_at_once(journal, name="asks") -> int:
    """How many of them ran at the same time at the most, by what they have recorded."""
    most, running = 0, set()
    for entry in journal.entries():
        if not entry.name.endswith(name):
            continue
        run = (entry.task_id, entry.pid)
        if entry.event == "start":
            running.add(run)
        else:
            running.discard(run)
        most = max(most, len(running))
    return most


@pytest.mark.brokers("redis")
@pytest.mark.timeout(180)
def test_three_workers_keep_to_the_places_and_a_dead_ones_come_back(broker, app, start, journal):
    workers = [start(number) for number in (1, 2, 3)]
    labels = [f"short {number}" for number in range(12)]
    for label in labels:
        call(app, label, 0.2)
    call(app, "free", name="i.sleep")  # behind them in the queue, and uses nothing
    journal.wait_finished("free", *labels)
    assert most_at_once(journal) == PLACES
    order = journal.labels("finish")
    # It stood behind nobody: else all of them would have begun before it.
    assert order.index("free") < len(labels) - PLACES

    for number in range(PLACES):
        call(app, f"long {number}", 600.0)
    started = journal.wait_started(*(f"long {number}" for number in range(PLACES)))
    victims = {entry.pid for entry in started if entry.label.startswith("long")}
    for worker in workers:
        children = {int(pid) for pid in _children(worker.pid)}
        if victims & children:  # with what its children run, or they would keep their places
            worker.send_signal(signal.SIGKILL)
            for child in children:
                os.kill(child, signal.SIGKILL)
    call(app, "next")  # not before: whoever is killed may have it, and keeps it for an hour
    journal.wait_finished("next", timeout=40)


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


@pytest.mark.brokers("redis")
@pytest.mark.timeout(120)
def test_a_child_keeps_its_place_while_its_worker_stands_still(broker, app, start, journal):
    """Killed it can't be outlived on Linux, where Celery has its children end with it."""
    one = {"RESOURCES": '{"openai": {"max_running": 1}}'}
    workers = [start(number, slots=2, env=one) for number in (1, 2)]
    call(app, "long", LEASE_SECONDS + 4.0)
    (begun,) = journal.wait_started("long")
    workers.sort(key=lambda worker: str(begun.pid) in _children(worker.pid))
    other, host = workers

    def one_more_waits_in_the_other():
        call(app, "after")
        return ask(app, other.hostname)["clearing"]["waiting"]["interactive"]

    wait_until(one_more_waits_in_the_other, "one to wait where it can still run")
    host.send_signal(signal.SIGSTOP)
    try:
        journal.wait_finished("long", "after", timeout=60)
    finally:
        host.send_signal(signal.SIGCONT)
    assert most_at_once(journal) == 1
    assert journal.finished()[0] == "long"


@pytest.mark.brokers("redis")
@pytest.mark.timeout(120)
def test_a_busy_worker_keeps_nothing_that_another_has_slots_for(broker, app, start, journal):
    """The store has places enough; yet as it begins it lets all wait, and they are pulled."""
    env = {"RESOURCES": '{"openai": {"max_running": 3}}'}
    busy = start(1, pool="threads", slots=1, env=env)
    labels = [f"short {number}" for number in range(6)]
    for label, seconds in (("long", 600.0), *((label, 0.0) for label in labels)):
        call(app, label, seconds)
    journal.wait_started("long")
    wait_until(
        lambda: ask(app, busy.hostname)["clearing"]["waiting"]["interactive"] > 0, "some to wait"
    )
    other = start(2, pool="threads", slots=1, env=env)
    journal.wait_finished(*labels)
    wait_until(lambda: places(app, other) == 0, "its places to be back")


def places(app, worker) -> int:
    return ask(app, worker.hostname)["clearing"]["places"].get("openai", 0)


@pytest.mark.brokers("redis")
@pytest.mark.parametrize("pool", ["gevent", "solo"])
def test_other_pools_give_their_places_back(broker, app, start, journal, pool):
    worker = start(1, pool=pool, slots=3)
    labels = [f"short {number}" for number in range(6)]
    for label in labels:
        call(app, label, 0.05)
    journal.wait_finished(*labels)
    assert most_at_once(journal) == (1 if pool == "solo" else PLACES)
    wait_until(lambda: places(app, worker) == 0, "all places to be back")
