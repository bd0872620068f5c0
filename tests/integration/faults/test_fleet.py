"""Many workers under faults: one fleet, also while some die, join, or can't see the others.

Loads are of short tasks, so that a few seconds say something; waits are judged against the batch
task that one would have waited for, since that is what a reserve that fails costs.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import psutil
import pytest

from celery_fair.worker.fleet import LOST_AFTER
from celery_fair.worker.links import MEMBERS_KEY
from tests.apps.mixed import BATCH_QUEUE, INTERACTIVE_QUEUE
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.fleet import FleetSite
from tests.integration.contract.site import Run, labels, most_at_once, of_kind, running_at

SHARE = 0.2
BATCH_SECONDS = 2.0
"""Long against what a busy machine takes to start a task in a worker that is free."""
INTERACTIVE_SECONDS = 0.05
# A killed worker's messages come back from Redis after this timeout.
REDIS = {"visibility_timeout": 8, "unacked_restore_interval": 1}

LOADED = ["redis-threads-4x2"]
LOADED_FULL = ["redis-threads-8x1", "rabbitmq-prefork-4x2", "rabbitmq-threads-8x1"]
PARTED = ["redis-threads-4x1"]
PARTED_FULL = ["redis-prefork-4x2", "redis-threads-8x1", "rabbitmq-threads-4x1"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = metafunc.config.getoption("--full")
    for name, short, more in (
        ("fleet", LOADED, LOADED_FULL),
        ("parted", PARTED, PARTED_FULL),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, short + more * full, indirect=True, scope="module")


def make_site(request, tmp_path_factory, param: str) -> FleetSite:
    name, pool, shape = param.split("-")
    size, each = map(int, shape.split("x"))
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
    folder = tmp_path_factory.mktemp(param)
    site = FleetSite(broker, folder, pool, size, each=each, app="tests.apps.apart")
    site.apart = folder / "apart"
    site._env |= {"APART": str(site.apart), "NAIVE": os.environ.get("NAIVE", "")}
    try:
        site.spawn(size)
        site.wait_fleet(size)
    except BaseException:
        site.close()
        raise
    return site


@pytest.fixture(scope="module")
def fleet(request, tmp_path_factory) -> Iterator[FleetSite]:
    """Eight slots on several workers."""
    site = make_site(request, tmp_path_factory, request.param)
    yield site
    site.close()


@pytest.fixture(scope="module")
def parted(request, tmp_path_factory) -> Iterator[FleetSite]:
    """Workers that a test parts from each other."""
    site = make_site(request, tmp_path_factory, request.param)
    yield site
    site.close()


def empty(site: FleetSite, lost: Collection[str] = ()) -> None:
    """Drop what waits at the broker, and wait until nothing runs, but what was lost."""

    def rests() -> bool:
        with site.app.connection_for_write() as connection:
            for queue in (INTERACTIVE_QUEUE, BATCH_QUEUE):
                with contextlib.suppress(Exception):
                    connection.default_channel.queue_purge(queue)
        return set(site.journal.running()) <= set(lost)

    wait_until(rests, lambda: f"{site.journal.running()} to end", timeout=20, poll_seconds=0.1)


def steady(site: FleetSite, prefix: str, count: int) -> tuple[dict[str, float], list[Run]]:
    """Interactive waits by label, and all runs: at random moments over a batch backlog."""
    seconds = BATCH_SECONDS
    source = random.Random(prefix)
    backlog = math.ceil(1.5 * (count / 4 + 4) * site.slots / seconds)
    site.publish("b.sleep", labels(f"{prefix}-b", backlog), seconds)
    site.wait_running(f"{prefix}-b", max(site.slots // 2 - 1, 1))
    published = {}
    for label in labels(f"{prefix}-i", count):
        time.sleep(source.expovariate(4.0))
        published[label] = time.time()
        site.publish("i.sleep", [label], INTERACTIVE_SECONDS)
    site.wait_finished(f"{prefix}-i", count)
    empty(site)
    runs = site.runs(f"{prefix}-")
    interactive = of_kind(runs, "interactive")
    return {run.label: run.started_at - published[run.label] for run in interactive}, runs


def p90(waits: dict[str, float]) -> float:
    """One in ten may be unlucky: forty tasks say little of the twentieth part of them."""
    return sorted(waits.values())[int(0.9 * len(waits))]


def overtaken(runs: list[Run]) -> float:
    """The longest time in which batch tasks that were published later had started already."""
    batch = sorted(of_kind(runs, "batch"), key=lambda run: int(run.label.rsplit("-b", 1)[1]))
    earliest, longest = math.inf, 0.0
    for run in reversed(batch):
        longest = max(longest, run.started_at - earliest)
        earliest = min(earliest, run.started_at)
    return longest


# one fleet


def test_interactive_tasks_start_at_once_and_nobody_hoards_batch(fleet: FleetSite, full: bool):
    waits, runs = steady(fleet, "steady", 80 if full else 16)
    assert p90(waits) < BATCH_SECONDS / 4, waits
    batch = of_kind(runs, "batch")
    assert fleet.slots // 2 - 1 <= most_at_once(batch) < fleet.slots
    # Held for a second at the most, and then the next to start somewhere.
    assert overtaken(runs) <= 1.0 + BATCH_SECONDS / 2


@pytest.mark.timeout(300)
def test_waits_are_those_of_one_worker_with_as_many_slots(
    fleet: FleetSite, full: bool, request, tmp_path_factory
):
    if not full:
        pytest.skip("takes a minute: with --full")
    broker, pool, _ = request.node.callspec.params["fleet"].split("-")
    waits, _ = steady(fleet, "many", 120)
    one = make_site(request, tmp_path_factory, f"{broker}-{pool}-1x{fleet.slots}")
    try:
        of_one, _ = steady(one, "one", 120)
    finally:
        one.close()
    # Within two times, beyond the noise of a machine that is busy.
    assert p90(waits) <= 2 * p90(of_one) + 0.05, (p90(waits), p90(of_one))


@pytest.mark.timeout(300)
def test_batch_keeps_its_share_while_workers_die_leave_and_join(fleet: FleetSite, full: bool):
    """One that dies is missed after ``LOST_AFTER`` words; until then its batch counts as running.

    The last dies, which has the guaranteed slots.
    """
    seconds, size, rounds = 0.25, len(fleet.workers), 5 if full else 1
    published = Counter()

    def fill() -> None:
        """Have both kinds wait for longer than a slow machine takes to start a worker."""
        waiting = published.copy()
        waiting.subtract(e.name[0] for e in fleet.entries("churn-") if e.event == "start")
        for kind, lasts in (("i", 25.0), ("b", 12.0)):
            names = range(published[kind], published[kind] + int(lasts * fleet.slots / seconds))
            names = names[max(waiting[kind], 0) :]
            fleet.publish(f"{kind}.sleep", [f"churn-{kind}{name}" for name in names], seconds)
            published[kind] += len(names)

    fill()
    fleet.wait_running("churn-i", fleet.slots // 2)
    begin, lost = time.time(), set()
    for _ in range(rounds):
        fleet.kill()
        lost |= set(fleet.journal.running())
        leaving = fleet.workers.pop(0)
        assert leaving.stop(30) == 0
        fill()
        fleet.spawn(2)
        fill()
        fleet.wait_fleet(size)
    fill()
    settled = time.time()
    fleet.wait_finished("churn-i", len(fleet.runs("churn-i")) + int(3.0 * fleet.slots / seconds))
    end = time.time()
    empty(fleet, lost)
    runs = [run for run in fleet.runs("churn-") if begin <= run.started_at < end]
    guaranteed = math.ceil(SHARE * fleet.slots)
    owed = SHARE * sum(run.seconds for run in runs)
    batch = of_kind(runs, "batch")
    got = sum(run.seconds for run in batch)
    assert owed - rounds * guaranteed * (LOST_AFTER + 1) <= got <= 2 * owed, (got, owed)
    late = [run for run in runs if run.started_at >= settled]
    share = sum(run.seconds for run in of_kind(late, "batch")) / sum(run.seconds for run in late)
    assert 0.7 * SHARE <= share <= 2.5 * SHARE
    crowded = [run for run in batch if running_at(batch, run.started_at) > guaranteed + 1]
    assert len(crowded) <= len(batch) // 4


# the view is away


@contextlib.contextmanager
def unreadable(site: FleetSite, request) -> Iterator[None]:
    """The place where the workers' words are kept can't be used; the broker can."""
    server = request.getfixturevalue("shared_redis")
    database = int(site.broker.url.rsplit("/", 1)[1])
    with server.client(database) as client:
        client.set(MEMBERS_KEY, "no hash")
        try:
            yield
        finally:
            client.delete(MEMBERS_KEY)


@contextlib.contextmanager
def apart(site: FleetSite, *names: str) -> Iterator[None]:
    """The sensors of these workers have no connection."""
    site.apart.write_text(" ".join(names))
    try:
        yield
    finally:
        site.apart.unlink()


def wait_in_sight(site: FleetSite, in_sight: Callable[[str], bool], timeout: float = 15) -> None:
    def seen() -> dict[str, bool]:
        return {w.hostname: site.status(w)["fleet"]["in_sight"] for w in site.workers}

    wait_until(
        lambda: all(seen()[w.hostname] == in_sight(w.hostname) for w in site.workers),
        lambda: f"other workers to be in sight than {seen()}",
        timeout=timeout,
        poll_seconds=0.2,
    )


def wait_running_elsewhere(site: FleetSite) -> None:
    """Wait until each worker has spoken while it ran what it runs now."""
    spoken = {w.hostname: site.status(w)["sensor"]["reads"] + 2 for w in site.workers}
    wait_until(
        lambda: all(site.status(w)["sensor"]["reads"] >= spoken[w.hostname] for w in site.workers),
        "two more readings of each worker",
        poll_seconds=0.2,
    )


def check_unaffected(site: FleetSite, prefix: str, full: bool) -> None:
    """Interactive tasks start at once, and batch gets its share or more."""
    waits, runs = steady(site, prefix, 60 if full else 10)
    assert p90(waits) < BATCH_SECONDS / 2, waits
    batch = of_kind(runs, "batch")
    begin, end = batch[0].started_at, max(run.started_at for run in runs)
    got = sum(min(run.finished_at, end) - run.started_at for run in batch if run.started_at < end)
    assert got / (site.slots * (end - begin)) >= 0.8 * SHARE


def check_share_in_a_flood(
    site: FleetSite, prefix: str, lasts_seconds: float = 8.0, settle_seconds: float = 2.5
) -> None:
    """Batch gets about its share of the slots while interactive tasks would take all.

    What it got beyond its share before, it has to make up for first.
    """
    seconds = 0.25
    count = int(lasts_seconds * site.slots / seconds)
    site.publish("i.sleep", labels(f"{prefix}-i", count), seconds)
    site.publish("b.sleep", labels(f"{prefix}-b", count // 2), seconds)
    site.wait_finished(f"{prefix}-i", int(0.75 * count))
    runs = site.runs(f"{prefix}-")
    empty(site)
    begin = runs[0].started_at + settle_seconds
    runs = [run for run in runs if run.started_at >= begin]
    got = sum(run.seconds for run in of_kind(runs, "batch")) / sum(run.seconds for run in runs)
    assert 0.5 * SHARE <= got <= 2 * SHARE, got


def test_where_words_cannot_be_kept_all_stay_in_their_places(parted, full, request):
    if parted.broker.name != "redis":
        pytest.skip("words are kept on Redis only")
    # What the others ran when they were seen last must not stand for what they run.
    parted.publish("b.sleep", labels("seen-b", 12 * parted.slots), 0.5)
    parted.wait_running("seen-b", max(parted.slots // 2 - 1, 1))
    wait_running_elsewhere(parted)
    with unreadable(parted, request):
        wait_in_sight(parted, lambda name: False)
        empty(parted)
        check_unaffected(parted, "unread", full)
        check_share_in_a_flood(parted, "unread-flood")
        assert all(
            log.read_text().count("out of sight") == 1 for log in parted.folder.glob("worker-?.log")
        )
    wait_in_sight(parted, lambda name: True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("who", ["first", "last", "all"])
def test_workers_that_are_cut_off_stay_in_their_places(parted, full, who):
    if not full:
        pytest.skip("simulated in tests/unit/sim; here with --full")
    names = {"first": ["f1@test"], "last": [f"f{len(parted.workers)}@test"], "all": ["*"]}[who]
    with apart(parted, *names):
        wait_in_sight(parted, lambda name: who != "all" and name not in names)
        check_unaffected(parted, f"cut-{who}", full)
        # The others' debt grows slowly; the run times of the tasks before must be forgotten.
        check_share_in_a_flood(parted, f"cut-{who}-flood", 30.0, 10.0)
    wait_in_sight(parted, lambda name: True, timeout=40)


@pytest.mark.timeout(300)
def test_one_without_the_plugin_takes_what_it_gets_and_disturbs_nobody(parted, full):
    """It is in no view; what it has caught waits there as with plain Celery."""
    if not full:
        pytest.skip("nothing of ours is in it: with --full")
    size = len(parted.workers)
    queues = [INTERACTIVE_QUEUE, BATCH_QUEUE]
    [plain] = parted.spawn(env={"CELERY_FAIR__ENABLED": "false"}, queues=queues)
    parted.workers.remove(plain)
    try:
        parted.wait_fleet(size)
        waits, runs = steady(parted, "beside", 60)
        family = {plain.pid, *(child.pid for child in psutil.Process(plain.pid).children())}
        theirs = {entry.label for entry in parted.entries("beside-") if entry.pid in family}
    finally:
        plain.close()
    assert theirs
    ours = {label: wait for label, wait in waits.items() if label not in theirs}
    assert p90(ours) < BATCH_SECONDS / 2, ours
    assert len(of_kind(runs, "batch")) > len(theirs)


def test_one_that_joins_as_the_reserve_runs_no_batch_before_it_knows_that(parted):
    """Started over a backlog, it would take the first message that comes, for all of its run."""
    wait_in_sight(parted, lambda name: True, timeout=40)
    parted.publish("b.sleep", labels("join-b", 40 * parted.slots), 0.5)
    parted.wait_running("join-b", max(parted.slots // 2 - 1, 1))
    [joined] = parted.spawn(hostname="f0@test")
    parted.wait_fleet(len(parted.workers))
    finished = len(parted.runs("join-b"))
    parted.wait_finished("join-b", finished + 2 * parted.slots)
    taken = {entry.label for entry in parted.entries("join-b") if entry.pid == joined.pid}
    empty(parted)
    assert not taken
