"""Steering running workers: pauses, settings and drains, and what survives what."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import redis
from celery.bin.base import CLIContext
from click.testing import CliRunner

import celery_fair.cli
from celery_fair.cli.ordering import give
from celery_fair.steering.making import assigning
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import cut_workers
from tests.nodes.answering import until_answered

APP = "tests.apps.mixed"
KEPT = "_celery_fair.orders"
PAUSED = {"kind": "batch", "queue": None}


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def control(app):
    """``control("fair_pause", kind="batch")``: what one worker answers, or the one named."""

    def ask(command, node=None, **arguments):
        with app.connection_for_write() as connection:  # its own: a test may kill the others
            (answer,) = app.control.broadcast(
                command, arguments=arguments, destination=node and [node], reply=True,
                timeout=5.0, limit=1, connection=connection,
            )  # fmt: skip
        return next(iter(answer.values()))

    return ask


@pytest.fixture
def steering(control):
    """What a worker says of what it was ordered."""
    return lambda node="w1@test": control("fair_status", node)["steering"]


@pytest.fixture
def fair(app):
    """``fair("pause", "batch")``: what ``celery fair …`` does, in this process."""

    def run(*arguments):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return until_answered(  # nothing is ordered where nobody answers
            lambda: CliRunner().invoke(celery_fair.cli.fair, arguments, obj=context),
            lambda done: done.exit_code,
        )

    return run


def labels(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


def begun(journal, prefix):
    """What has been started of those that are labelled so."""
    return {label for label in journal.labels() if label.startswith(prefix)}


def paused(steering, node="w1@test"):
    return [{name: one[name] for name in PAUSED} for one in steering(node)["paused"]]


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_paused_batch_waits_and_is_lost_by_no_crash(start_worker, app, journal, control, pool):
    worker = start_worker(APP, pool=pool, concurrency=2)
    app.tasks["b.late"].delay("runs", 0.3)
    for label in labels("b", 8):
        app.tasks["b.late"].delay(label)
    journal.wait_started("runs")
    assert control("fair_pause", kind="batch") == {"ok": "batch running → paused"}
    for label in labels("i", 3):
        app.tasks["i.sleep"].delay(label)
    journal.wait_finished("runs", *labels("i", 3))
    before = begun(journal, "b")

    def all_at_the_broker():
        batch = control("fair_status")["kinds"]["batch"]
        return batch["backlog"] == 8 - len(before) and not batch["held"]

    wait_until(all_at_the_broker, "what was held is back at the broker")
    assert begun(journal, "b") == before
    worker.kill()
    worker.start()
    control("fair_resume", kind="batch")
    journal.wait_finished("runs", *labels("b", 8), timeout=20)


def test_a_pause_survives_reconnects_and_costs_nothing_meanwhile(
    start_worker, app, journal, control, steering, broker, redis_client, shared_redis
):
    """A kind's and a queue's, over two lost connections; the worker neither spins nor pulls."""
    worker = start_worker(APP, queues=["celery", "celery.batch", "reports"])
    control("fair_pause", kind="batch")
    control("fair_pause", kind="interactive", queue="reports")
    for number in range(50):
        app.tasks["b.sleep"].delay(f"b{number}")
        app.tasks["i.sleep"].apply_async((f"r{number}",), queue="reports")
    for label in ("i0", "i1"):
        cut_workers(shared_redis, broker)
        app.tasks["i.sleep"].delay(label)
        journal.wait_finished(label)
    process = psutil.Process(worker.pid)
    pops, cpu, began = _pops(redis_client), process.cpu_times(), time.monotonic()
    wait_until(lambda: time.monotonic() - began > 2.0, "two seconds", timeout=5)
    after = process.cpu_times()
    assert (after.user + after.system) - (cpu.user + cpu.system) < 0.05 * 2.0 + 0.1
    asked = _pops(redis_client) - pops
    assert asked <= 2 + 2 * (time.monotonic() - began), "an idle lane asks once a second"
    assert not begun(journal, "b") | begun(journal, "r")
    assert [one["queue"] for one in steering()["paused"]] == [None, "reports"]
    control("fair_resume", kind="batch")
    control("fair_resume", kind="interactive", queue="reports")
    journal.wait_finished(*labels("b", 50), *labels("r", 50), timeout=20)


def _pops(client):
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("brpop", "rpop"))


def test_workers_learn_what_they_have_missed_and_kept_orders_outlive_them_all(
    start_worker, app, journal, control, steering, fair, redis_client
):
    first = start_worker(APP)
    done = fair("pause", "batch", "--json")
    assert json.loads(done.stdout)["done"], done.output
    for label in labels("b", 5):
        app.tasks["b.sleep"].delay(label)
    second = start_worker(APP)
    wait_until(lambda: paused(steering, "w2@test") == [PAUSED], "the second has learnt")
    assert steering("w2@test")["version"] == steering("w1@test")["version"]
    assert not begun(journal, "b")
    kept = fair("pause", "batch", "--keep")
    assert kept.exit_code == 0, kept.output
    for worker in (first, second):
        worker.kill()
    first.start()
    assert paused(steering) == [PAUSED]
    assert not begun(journal, "b")
    control("fair_resume", kind="batch")
    wait_until(lambda: "false, " in "".join(redis_client.hvals(KEPT)), "the end of it is kept")
    journal.wait_finished(*labels("b", 5))


def test_two_operators_at_once_leave_the_workers_alike_and_are_told(start_worker, broker, steering):
    start_worker(APP)
    start_worker(APP)
    shares, both = (0.3, 0.4), threading.Barrier(2)

    def order(share):
        app = mixed.make_app(broker)
        both.wait()
        try:
            wish = assigning("batch_share", share)
            return give(app, [wish], destination=None, timeout_seconds=3.0)
        finally:
            app.close()

    with ThreadPoolExecutor() as pool:
        said = list(pool.map(order, shares))
    found = [steering(node)["settings"]["batch_share"] for node in ("w1@test", "w2@test")]
    assert found[0] == found[1]
    for share, outcome in zip(shares, said, strict=True):
        assert outcome.agree
        assert {line.node for line in outcome.lines} == {"w1@test", "w2@test"}
        (value,) = {line.after for line in outcome.lines}
        # Who has lost was told so, unless the other's order came after all was said and done.
        assert outcome.done == (value == share) != bool(outcome.overruled)
    assert found[0]["value"] in {line.after for outcome in said for line in outcome.lines}


def test_a_drained_worker_ends_its_work_and_the_next_of_its_name_takes_some(
    start_worker, app, journal, control, fair, steering
):
    worker = start_worker(APP, concurrency=2)
    start_worker(APP, concurrency=1, queues=["others"])  # it only remembers
    app.tasks["i.sleep"].apply_async(("eta",), countdown=3600)
    wait_until(
        lambda: control("fair_status", "w1@test")["kinds"]["interactive"]["scheduled"], "the ETA"
    )
    app.tasks["i.sleep"].delay("long", 2.5)
    app.tasks["i.sleep"].delay("long too", 2.5)
    journal.wait_started("long", "long too")
    done = fair("drain", "w1@test", "--wait")
    assert done.exit_code == 0, done.output
    assert re.search(r"in service → draining \(\d running, 1 wait for their time\)", done.output)
    assert set(journal.finished()) == {"long", "long too"}
    app.tasks["i.sleep"].delay("late")
    drained = steering()
    assert drained["draining"]["done"]
    wait_until(lambda: steering("w2@test")["version"] == drained["version"], "the other knows")
    assert not begun(journal, "late")
    worker.kill()
    worker.start()
    wait_until(lambda: steering()["version"] == drained["version"], "it has learnt")
    assert steering()["draining"] is None
    journal.wait_finished("late")


def test_an_observing_worker_notes_a_pause_which_fails_nothing_once_it_is_in_force(
    start_worker, app, journal, fair, control, steering
):
    timeout = {"CELERY_FAIR__BATCH_TIMEOUT_SECONDS": "1"}
    start_worker(APP, env={"CELERY_FAIR__MODE": "observe", **timeout})
    done = fair("pause", "batch")
    assert "w1@test has noted it, and doesn't follow: it only observes" in done.output
    app.tasks["b.sleep"].delay("b0")
    journal.wait_finished("b0")
    assert fair("set", "mode=enforce").exit_code == 0
    wait_until(lambda: steering()["not_in_force"] is None, "it enforces")
    app.tasks["b.sleep"].delay("b1")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5, "more than the timeout")
    assert begun(journal, "b") == {"b0"}
    control("fair_resume", kind="batch")
    journal.wait_finished("b1")
    assert control("fair_status")["kinds"]["batch"]["dropped"] == {}


@pytest.fixture
def redis_client(broker: Broker):
    client = redis.Redis.from_url(broker.url, decode_responses=True)
    yield client
    client.close()
