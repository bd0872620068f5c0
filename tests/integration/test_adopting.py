"""What docs/adopting.md promises: a replay from real workers, half a fleet, and the way back."""

from __future__ import annotations

from collections import Counter

import pytest

from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask
from celery_fair.cli.status_replay import replayed
from celery_fair.sharding.names import shards_of
from tests.apps import mixed
from tests.apps.mixed import BATCH_QUEUE
from tests.brokers.waiting import wait_until

APP = "tests.apps.mixed"
OFF = {"CELERY_FAIR__ENABLED": "false"}
BOTH = f"celery,{BATCH_QUEUE}"
NUMBER = 60
ROUNDS = 10


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def publish(app, number=NUMBER, seconds=0.01, first=0) -> list[str]:
    """So many of each kind; returns what each is called."""
    found = [f"{kind}{n}" for n in range(first, first + number) for kind in ("i", "b")]
    for label in found:
        app.tasks[f"{label[0]}.sleep"].delay(label, seconds)
    return found


def wait_for_each_once(journal, names, timeout=40) -> None:
    journal.wait_finished(*names, timeout=timeout)
    started = Counter(entry.label for entry in journal.entries() if entry.event == "start")
    assert started == dict.fromkeys(names, 1)


@pytest.mark.brokers("redis")
def test_workers_that_observe_tell_all_that_a_replay_needs(start_worker, app, journal):
    for _ in range(2):
        start_worker(APP, pool="threads", env={"CELERY_FAIR__MODE": "observe"})
    wait_for_each_once(journal, publish(app))

    def seen():
        answers = Answers.of(ask(app, "fair_status", timeout_seconds=10, limit=2))
        found = replayed(app, answers, 100_000, 10.0)
        # A task that has ended is counted at the next tick.
        return found is not None and found.tasks == 2 * NUMBER and found

    found = wait_until(seen, "a replay of all tasks")
    assert (found.workers, found.slots, found.why) == (2, 4, None)
    for part in found.of.values():
        assert part.tasks == NUMBER
        assert part.measured["p95"] >= 0.0
        # Whether it agrees is a matter of the machine; a figure or a reason is none.
        assert (part.would_be is None) == (part.why is not None)


@pytest.mark.brokers("redis", "rabbitmq")
def test_half_a_fleet_without_celery_fair_loses_nothing_and_starves_nobody(
    start_worker, app, journal
):
    fair = start_worker(APP, pool="threads")
    plain = start_worker(APP, pool="threads", env=OFF, queues=BOTH)
    names: list[str] = []
    wanted = {(worker.pid, kind) for worker in (fair, plain) for kind in ("i", "b")}
    for number in range(ROUNDS):  # one that is slow to begin gets its part of the next
        names += publish(app, 20, seconds=0.05, first=20 * number)
        wait_for_each_once(journal, names)
        ran = {(entry.pid, entry.label[0]) for entry in journal.entries()}
        if wanted <= ran:
            return
    raise AssertionError(f"of {wanted} only {ran} ran tasks of these kinds")


@pytest.mark.brokers("redis", "rabbitmq")
def test_what_waits_in_queues_of_ours_is_run_by_plain_celery_that_is_given_their_names(
    start_worker, app, journal
):
    """Switched off in the middle of the work: one worker goes on with celery-fair for a while."""
    shards = shards_of(BATCH_QUEUE, 2)
    ours = ["celery.front", f"{BATCH_QUEUE}.front", *shards]
    fair = start_worker(APP, pool="threads", env={"CELERY_FAIR__BATCH_SHARDS": "2"})
    names = publish(app, seconds=0.1)
    journal.wait_count(8, "start")
    assert fair.stop(30) == 0  # what it holds goes back
    for number, queue in enumerate(ours):
        app.tasks["b.sleep"].apply_async((f"b in {number}",), queue=queue)
        names.append(f"b in {number}")
    start_worker(APP, pool="threads", env=OFF, queues=",".join([BOTH, *ours]), concurrency=8)
    wait_for_each_once(journal, names)
