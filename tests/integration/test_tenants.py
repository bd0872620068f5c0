"""Tenants take turns in what a worker holds: judged by the order in which their tasks begin."""

from __future__ import annotations

import json

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish, runs

SLOTS, MANY = 2, 200
BIG, SMALL = labels("big-", MANY), labels("small-", 5)
QUICK = labels("quick-", 4)
HOSTNAME = "w1@tenants"


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def order(app, start_worker, journal, tmp_path):
    """What began after all had been held, and what the worker told of it while it was."""

    def order(**environ):
        opened = tmp_path / "opened"
        publish(app, "i.sleep", QUICK, 0.01)  # how far ahead to hold follows from what has ended
        publish(app, "i.until", labels("before-", SLOTS), str(opened))
        publish(app, "i.sleep", BIG, 0.02, tenant="big")
        publish(app, "i.sleep", SMALL, 0.02, tenant="small")
        env = {"CELERY_FAIR__LOOKAHEAD_SECONDS": "100000", **environ}  # holds all there is
        env["CELERY_CONF"] = json.dumps({"worker_prefetch_multiplier": 0})
        start_worker(
            "tests.apps.mixed", pool="threads", concurrency=SLOTS, env=env, hostname=HOSTNAME
        )

        def held():
            part = (ask(app, HOSTNAME) or {"kinds": {}})["kinds"].get("interactive", {})
            return part if part.get("held") == MANY + len(SMALL) else None

        told = wait_until(held, "all to be held", timeout=30)
        opened.touch()
        journal.wait_finished(*BIG, *SMALL, timeout=60)
        return journal.started()[len(QUICK) + SLOTS :], told

    return order


@pytest.mark.brokers("redis")
def test_five_of_one_dont_wait_for_two_hundred_of_another(broker, order, journal):
    began, told = order()
    assert told["tenants"]["waiting"] == 2
    assert told["tenants"]["top"] == [
        {"tenant": "big", "held": MANY},
        {"tenant": "small", "held": len(SMALL)},
    ]
    # 10 or so; but turns are in slot-seconds, and what stood still for one is the other's as well.
    last = max(place for place, label in enumerate(began) if label.startswith("small-"))
    seconds = {run.label: run.seconds for run in runs(journal.entries())}
    slow = sum(seconds[label] for label in SMALL)
    assert last < MANY / 2 or sum(seconds[label] for label in began[:last]) <= 3 * slow


@pytest.mark.brokers("redis")
def test_without_turns_the_order_is_that_of_the_first_publish(broker, order):
    began, told = order(CELERY_FAIR__TENANT_TURNS="false")
    assert told["tenants"] is None
    assert set(began[: MANY - SLOTS]) < set(BIG)
