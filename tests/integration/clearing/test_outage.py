"""Redis is away, and the broker is not: interactive tasks go on, and batch has its share."""

from __future__ import annotations

import pytest

from tests.apps import sharing
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

PLACES = 4
SETTINGS = {
    "CELERY_FAIR__RESERVE": "0",
    "RESOURCES": f'{{"openai": {{"max_running": {PLACES}}}}}',
}


@pytest.fixture
def app(broker):
    app = sharing.make_app(broker)
    yield app
    app.close()


def call(app, label, seconds, name):
    app.tasks[name].apply_async((label, seconds))


def running_at_once(entries, kind: str) -> int:
    """How many of a kind ran at the same time at the most."""
    most, running = 0, set()
    for entry in entries:
        if entry.name == f"{kind}.asks":
            change = running.add if entry.event == "start" else running.discard
            change(entry.task_id)
        most = max(most, len(running))
    return most


@pytest.mark.brokers("rabbitmq")
@pytest.mark.timeout(180)
def test_without_redis_interactive_goes_on_and_batch_has_its_share(
    broker, app, start_worker, start_redis, journal
):
    redis = start_redis()
    env = {**SETTINGS, "CELERY_FAIR__STATE_URL": redis.url}
    workers = [
        start_worker("tests.apps.sharing", concurrency=3, hostname=f"w{n}@test", env=env)
        for n in (1, 2)
    ]

    def clearing(worker):
        return ask(app, worker.hostname)["clearing"]

    def all_know(workers_seen=2):
        return all(ask(app, w.hostname)["fleet"]["workers"] == workers_seen for w in workers)

    wait_until(all_know, "the workers to see each other")
    for number in range(40):
        call(app, f"batch {number}", 0.5, "b.asks")
    journal.wait_count(PLACES, "start")
    redis.kill()
    wait_until(lambda: all(clearing(w)["away"] for w in workers), "all to have noticed")
    begun = len(journal.entries())
    before = set(journal.running())
    for number in range(6):
        call(app, f"person {number}", 0.1, "i.asks")
    journal.wait_finished(*(f"person {number}" for number in range(6)))
    journal.wait(lambda every: sum(e.event == "finish" for e in every[begun:]) >= 14)
    during = journal.entries()[begun:]
    new = [entry for entry in during if entry.label not in before]
    assert running_at_once(new, "b") <= 2  # of two places that each has, its share is one
    assert running_at_once(new, "b") >= 1

    redis.restart()
    wait_until(lambda: not any(clearing(w)["away"] for w in workers), "all to ask again")
    call(app, "after", 0.0, "i.asks")
    journal.wait_finished("after", *(f"batch {number}" for number in range(40)), timeout=60)
    every = journal.entries()
    assert running_at_once(every, "b") + running_at_once(every, "i") <= 2 * PLACES
    wait_until(lambda: not any(clearing(w)["places"] for w in workers), "no place to be left")
