"""However a task ends, its slot is given back: running counts are 0, and nothing was audited."""

from __future__ import annotations

import json

import pytest

from tests.apps import endings
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish

POOLS = ["prefork", "threads", "gevent", "eventlet", "solo"]
SLOTS = 2
SETTINGS = {"CELERY_FAIR__RESERVE": "0"}


@pytest.fixture
def app(broker):
    app = endings.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def start(start_worker):
    """A worker of the app of endings, without a reserve, so that batch may use every slot."""

    def start(pool, slots=SLOTS, env=None, **options):
        return start_worker(
            "tests.apps.endings",
            pool=pool,
            concurrency=slots,
            env={**SETTINGS, **(env or {})},
            **options,
        )

    return start


def _wait_free(app, worker):
    """Wait until no slot is in use, by the callbacks alone; the status then."""

    def free():
        status = ask(app, worker.hostname)
        return status if all(k["running"] == 0 for k in status["kinds"].values()) else None

    status = wait_until(free, lambda: f"free slots: {ask(app, worker.hostname)}", timeout=30)
    assert status["slots"]["audited"] == 0
    assert ask(app, worker.hostname, "active") == []
    return status


def _outcomes(status):
    return {kind: part["finished"] for kind, part in status["kinds"].items()}


def _runs_as_before(app, journal):
    """Both slots can be used: two tasks that run at the same time."""
    publish(app, "b.sleep", ["left", "right"], 0.5)
    publish(app, "i.sleep", ["last"])
    journal.wait_finished("left", "right", "last", timeout=30)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.brokers("redis")
def test_failures_and_retries_give_their_slots_back(pool, start, app, journal):
    worker = start(pool)
    publish(app, "b.failing", labels("bad", 10))
    publish(app, "b.retrying", labels("again", 5), 2)
    publish(app, "i.retrying", labels("later", 2), 1, 0.2)
    journal.wait_count(10, "error", timeout=30)
    journal.wait_finished(*labels("again", 5), *labels("later", 2), timeout=30)
    status = _wait_free(app, worker)
    assert status["kinds"]["batch"]["dispatched"] == 10 + 15
    assert status["kinds"]["interactive"]["dispatched"] == 4
    assert _outcomes(status) == {
        "batch": {"failed": 10, "retried": 10, "succeeded": 5},
        "interactive": {"retried": 2, "succeeded": 2},
    }
    _runs_as_before(app, journal)


@pytest.mark.timeout(300)
@pytest.mark.brokers("redis")
def test_a_system_exit_ends_the_child_and_gives_its_slot_back(start, app, journal, full):
    worker = start("prefork")
    count = 100 if full else 4
    publish(app, "b.exiting", labels("exit", count))
    journal.wait_started(*labels("exit", count), timeout=200)
    assert _outcomes(_wait_free(app, worker))["batch"] == {"lost": count}
    _runs_as_before(app, journal)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_soft_and_hard_time_limits_give_their_slots_back(pool, start, app, journal, full):
    worker = start(pool, env={"CELERY_CONF": json.dumps({"broker_heartbeat": 0})})
    count = 50 if full else 2
    soft = {"soft_time_limit": 1, "time_limit": 30} if pool == "prefork" else {"time_limit": 2}
    publish(app, "b.sleep", labels("soft", count), 60, **soft)
    publish(app, "b.sleep", labels("hard", count), 60, time_limit=1)
    journal.wait_started(*labels("soft", count), *labels("hard", count), timeout=20 + 3 * count)
    outcomes = _outcomes(_wait_free(app, worker))["batch"]
    # A soft limit is an exception in the task; only prefork has one.
    both = {"time_limit": count, "failed": count}
    expected = both if pool == "prefork" else {"time_limit": 2 * count}
    assert outcomes == expected
    _runs_as_before(app, journal)


@pytest.mark.brokers("redis")
def test_a_time_limit_of_the_pool_is_known_as_one(start, app, journal):
    worker = start("gevent", args=("--time-limit", "1"))
    publish(app, "b.sleep", ["hard"], 60)
    journal.wait_started("hard")
    assert _outcomes(_wait_free(app, worker))["batch"] == {"time_limit": 1}


@pytest.mark.timeout(900)
@pytest.mark.brokers("redis")
def test_killed_children_give_their_slots_back(start, app, journal, full):
    worker = start("prefork")
    count = 200 if full else 10
    publish(app, "b.dying", labels("dying", count))
    # By name: a child that dies before its acceptance is read has its job given to another.
    journal.wait_started(*labels("dying", count), timeout=40 + 3 * count)
    assert _outcomes(_wait_free(app, worker))["batch"] == {"lost": count}
    _runs_as_before(app, journal)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", ["prefork", "gevent", "eventlet"])
@pytest.mark.brokers("redis")
def test_terminated_tasks_give_their_slots_back(pool, start, app, journal, full):
    worker = start(pool)
    turns = 50 if full else 1
    for turn in range(turns):
        long = labels(f"long{turn}-", 2)
        results = [app.tasks["b.sleep"].apply_async((label, 60)) for label in long]
        journal.wait_started(*long, timeout=30)
        for result in results:
            app.control.revoke(result.id, terminate=True, signal="SIGKILL")
    assert _outcomes(_wait_free(app, worker))["batch"] == {"revoked": 2 * turns}
    _runs_as_before(app, journal)


# Under solo a revoke and the task that it means are read after the same task, in any order.
@pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "solo"])
@pytest.mark.brokers("redis")
def test_revoked_and_expired_tasks_never_take_a_slot_for_good(pool, start, app, journal, tmp_path):
    worker, free = start(pool), tmp_path / "free"
    publish(app, "b.until", labels("busy", SLOTS), str(free))
    journal.wait_started(*labels("busy", SLOTS))
    revoked = [app.tasks["b.sleep"].apply_async((label,)) for label in labels("revoked", 5)]
    ids = {result.id for result in revoked}
    app.control.revoke(list(ids))
    wait_until(lambda: ids <= set(ask(app, worker.hostname, "revoked")), "it to be known")
    publish(app, "b.sleep", labels("expired", 5), expires=0.001)
    free.touch()
    publish(app, "b.sleep", ["after"])
    journal.wait_finished("after", timeout=30)
    status = _wait_free(app, worker)
    assert not [label for label in journal.started() if label.startswith(("revoked", "expired"))]
    assert status["kinds"]["batch"]["held"] == 0
    assert status["kinds"]["batch"]["dropped"] == {"revoked": 5, "expired": 5}
    _runs_as_before(app, journal)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_what_cannot_be_a_task_leaks_nothing(pool, start, app, journal):
    """Unknown names and bodies that can't be read, more of them than any window holds."""
    worker = start(pool)
    for kind in ("interactive", "batch"):
        for _ in range(20):
            app.send_task("no.such.task", kind=kind)
    with app.producer_or_acquire() as producer:
        for queue in ("celery", "celery.batch"):
            for _ in range(20):
                producer.publish(
                    b"\xff{", routing_key=queue, content_type="application/json",
                    content_encoding="utf-8", headers={"task": "b.sleep", "id": "x"},
                )  # fmt: skip
    publish(app, "b.sleep", labels("b", 20))
    publish(app, "i.sleep", labels("i", 20))
    journal.wait_count(40, timeout=30)
    status = _wait_free(app, worker)
    for kind in status["kinds"].values():
        assert (kind["held"], kind["scheduled"], kind["rate_limited"]) == (0, 0, 0)
    _runs_as_before(app, journal)
