"""Workers of one slot each: together they keep a reserve, a share and every message."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.fleet import FleetSite
from tests.integration.contract.site import (
    labels,
    most_at_once,
    of_kind,
    running_at,
    seconds_within,
)

SHARE = 0.2
BATCH_SECONDS = 1.0

# A killed worker's messages come back at once from RabbitMQ, and from Redis after this timeout.
REDIS = {"visibility_timeout": 8, "unacked_restore_interval": 1}


@pytest.fixture(scope="module", params=["redis-threads-8", "rabbitmq-prefork-4"])
def fleet(request, tmp_path_factory) -> Iterator[FleetSite]:
    """Started once; the tests below are told in their order."""
    name, pool, size = request.param.split("-")
    if name == "redis":
        server = request.getfixturevalue("shared_redis")
        database = next(request.getfixturevalue("_redis_databases"))
        with server.client(database) as client:
            client.flushdb()
        url = server.url_of(database)
        broker = Broker(name, url, url, REDIS)
    else:
        server = request.getfixturevalue("shared_rabbitmq")
        broker = Broker(name, server.url_of(server.new_vhost()), "rpc://")
    site = FleetSite(broker, tmp_path_factory.mktemp(request.param), pool, int(size))
    try:
        site.spawn(site.slots)
        yield site
    finally:
        site.close()


def test_each_member_counts_all_of_them(fleet: FleetSite):
    fleet.wait_fleet(fleet.slots)
    slots = [fleet.status(worker)["fleet"]["slots"] for worker in fleet.workers]
    assert set(slots) == {fleet.slots}


def test_interactive_tasks_find_a_free_worker_over_a_batch_backlog(fleet: FleetSite):
    """Seldom does one have to wait until a batch task ends, though each worker has one slot."""
    count = 5 * fleet.slots
    fleet.publish("b.sleep", labels("free-b", count), BATCH_SECONDS)
    fleet.wait_running("free-b", max(fleet.slots // 2, 1))
    published = {}
    for label in labels("free-i", 20):
        published[label] = time.time()
        fleet.publish("i.sleep", [label], 0.1)
        fleet.journal.wait_finished(label, timeout=30)
    fleet.wait_finished("free-b", count)

    interactive, batch = (of_kind(fleet.runs("free-"), kind) for kind in ("interactive", "batch"))
    waited_for_batch = [
        run.label
        for run in interactive
        if any(
            published[run.label] < other.finished_at < run.started_at
            for other in batch
            if other.pid == run.pid
        )
    ]
    # By order, and by no clock: on a busy machine even a free worker takes its time.
    assert len(waited_for_batch) <= len(published) // 3
    overtaken = [
        run.label
        for run in interactive
        if any(published[run.label] < other.started_at < run.started_at - BATCH_SECONDS
               for other in batch)
    ]  # fmt: skip
    assert len(overtaken) <= len(published) // 10
    # The reserve is the fleet's, not each worker's: batch has half of the slots and more.
    assert fleet.slots // 2 <= most_at_once(batch) < fleet.slots


def test_batch_keeps_its_share_of_the_fleet_under_a_flood(fleet: FleetSite):
    """P2 and P3 over the sum of the workers; a word to the others takes a second or two."""
    seconds, guaranteed = 0.3, math.ceil(SHARE * fleet.slots)
    count = 20 * fleet.slots
    fleet.publish("i.sleep", labels("flood-i", count), seconds)
    fleet.publish("b.sleep", labels("flood-b", 5 * fleet.slots), seconds)
    fleet.wait_finished("flood-i", count)
    done = fleet.runs("flood-")
    interactive, batch = of_kind(done, "interactive"), of_kind(done, "batch")
    begin = interactive[count // 3].started_at
    end = interactive[-3 * fleet.slots].started_at
    within = [run for run in batch if begin <= run.started_at < end]
    got = seconds_within(batch, begin, end)
    # Of what the slots have worked: where the machine is slow, each is idle between two tasks.
    worked = got + seconds_within(interactive, begin, end)
    assert 0.3 * SHARE <= got / worked <= 2.5 * SHARE
    crowded = [run for run in within if running_at(within, run.started_at) > guaranteed + 1]
    assert len(crowded) <= len(within) // 4
    fleet.wait_finished("flood-b", 5 * fleet.slots)


def test_a_killed_member_is_noticed_and_loses_nothing(fleet: FleetSite):
    count = 6 * fleet.slots
    fleet.publish("b.late", labels("kill-b", count), 0.5)
    fleet.publish("i.late", labels("kill-i", fleet.slots), 0.1)
    fleet.wait_finished("kill-", fleet.slots)
    fleet.kill()
    fleet.wait_fleet(fleet.slots - 1)

    def finished() -> set[str]:
        return {entry.label for entry in fleet.entries("kill-") if entry.event == "finish"}

    everything = {*labels("kill-b", count), *labels("kill-i", fleet.slots)}
    wait_until(
        lambda: finished() == everything,
        lambda: f"{sorted(everything - finished())} to finish after the kill",
        timeout=60,
    )
    starts = Counter(entry.label for entry in fleet.entries("kill-") if entry.event == "start")
    assert sum(starts.values()) <= len(everything) + 1  # what ran in the killed one


def test_a_member_that_joins_or_leaves_is_counted(fleet: FleetSite):
    before = len(fleet.workers)
    fleet.spawn()
    fleet.wait_fleet(before + 1)
    leaving = fleet.workers.pop()
    assert leaving.stop(30) == 0
    fleet.wait_fleet(before)
