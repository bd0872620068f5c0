"""When everything fails, batch retries add a part to the load, and not five times of it."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.apps import stormy
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

SECONDS = 5.0
PER_SECOND = 40


@pytest.fixture
def apps(broker):
    apps = [stormy.make_app(broker), stormy.make_app(broker, fair=False)]
    yield apps
    for app in apps:
        app.close()


def _fails(app, label, kind="b"):
    app.tasks[f"{kind}.fails"].apply_async((label,))


def _storm(apps):
    """So many arrivals a second for each app, evenly; returns how many there were."""
    began = time.monotonic()
    arrivals = int(SECONDS * PER_SECOND)
    for number in range(arrivals):
        due = began + number / PER_SECOND
        wait_until(lambda: time.monotonic() >= due, "the next one", poll_seconds=0.001)  # noqa: B023
        _fails(apps[0], "fair")
        _fails(apps[1], "plain")
    return arrivals


def _until_the_last_arrived(entries):
    """What has started while the storm lasted: later on, what was put off in it is no part of it.

    The sooner that began after the worker, the better the worker knew how much was coming.
    """
    arrived = {entry.task_id: number for number, entry in reversed([*enumerate(entries)])}
    return entries[: max(arrived.values()) + 1]


@pytest.mark.parametrize("recycled", [False, True], ids=["prefork", "a child a task"])
@pytest.mark.brokers("redis")
def test_a_storm_of_failures_cannot_double_the_load(broker, apps, start_worker, journal, recycled):
    args = ("--max-tasks-per-child", "1") if recycled else ()
    fair = start_worker("tests.apps.stormy", concurrency=4, queues="celery.batch", args=args)
    start_worker("tests.apps.stormy:plain", concurrency=4, queues="plain")
    arrivals = _storm(apps)
    journal.wait(
        lambda entries: sum(entry.label == "plain" for entry in entries) > 3 * arrivals,
        what="the load that plain Celery makes of it",
        timeout=40,
    )
    ran = _until_the_last_arrived([entry for entry in journal.entries() if entry.label == "fair"])
    assert arrivals < len(ran) < 1.3 * arrivals, Counter(journal.started())
    retries = ask(apps[0], fair.hostname)["retries"]
    assert retries["delayed"] > 0


@pytest.mark.brokers("redis", "rabbitmq")
def test_one_task_that_fails_on_a_quiet_worker_is_tried_as_often_as_it_may(
    broker, apps, start_worker, journal
):
    start_worker("tests.apps.stormy", pool="threads", concurrency=2)
    _fails(apps[0], "one")
    _fails(apps[0], "urgent", "i")
    for label in ("one", "urgent"):
        wait_until(
            lambda: journal.started().count(label) == stormy.MAX_RETRIES + 1,  # noqa: B023
            lambda: f"each try: {journal.started()}",
            timeout=30,
        )
