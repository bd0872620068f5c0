"""Running batch tasks give their slots to interactive ones, on real workers, and lose nothing."""

from __future__ import annotations

from itertools import count

import pytest
from celery import chain, chord

from tests.apps import giving_way
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

APP = "tests.apps.giving_way"
SLOTS = 2


@pytest.fixture
def app(broker):
    app = giving_way.make_app(broker)
    yield app
    app.close()


def _press(app, journal, *labels):
    """Publish interactive tasks until each of these has begun a second time."""
    numbers = count()

    def all_gave_way():
        starts = journal.started()
        if all(starts.count(label) > 1 for label in labels):
            return True
        for _ in range(SLOTS):
            app.tasks["i.quick"].delay(f"quick{next(numbers)}")
        return False

    what = f"{labels} to give way"
    wait_until(all_gave_way, lambda: f"{what}:\n{journal.text()}", timeout=30, poll_seconds=0.2)


def _assert_whole(found, journal, label, *, retries=0):
    """Each item was done once, and the sum was carried over, whatever came in between."""
    last = found["last"]
    items = [one for one in journal.labels("item") if one.rstrip("0123456789") == label]
    if not retries:
        assert items == [f"{label}{number}" for number in range(last + 1)], journal.text()
    assert found == {"last": last, "total": last * (last + 1) // 2, "retries": retries}
    starts = [entry for entry in journal.entries("start") if entry.label == label]
    assert len({entry.task_id for entry in starts}) == 1
    kept = [
        {name: entry.more[name] for name in giving_way.KEPT}
        for entry in starts
        if not entry.more["retries"]  # Celery's own retry gives a task without a parent one
    ]
    assert len(kept) > 1
    assert all(one == kept[0] for one in kept), kept


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
@pytest.mark.brokers("redis")
def test_a_canvas_has_its_results_though_each_part_of_it_has_yielded(
    broker, app, start_worker, journal, pool
):
    worker = start_worker(APP, pool=pool, concurrency=SLOTS)
    loop, failing, whole = (app.tasks[f"b.{name}"] for name in ("loop", "failing", "all"))
    both = ["a", "b"]
    result = chord([loop.si("a", both), failing.si("b", both)])(whole.s())
    journal.wait_started("a", "b", timeout=30)
    _press(app, journal, "a", "b")
    found = result.get(timeout=20)
    _assert_whole(found[0], journal, "a")
    _assert_whole(found[1], journal, "b", retries=1)
    if pool == "prefork":  # a deploy: the worker ends within an item, and another goes on
        chained = chain(loop.si("c"), whole.s()).apply_async()
        journal.wait_started("c", timeout=30)
        worker.stop(timeout=30)
        worker = start_worker(APP, pool="threads", concurrency=SLOTS)
        _assert_whole(chained.get(timeout=20), journal, "c")
    batch = ask(app, worker.hostname)["kinds"]["batch"]["finished"]
    assert set(batch) <= {"succeeded", "yielded", "retried"}, batch


@pytest.mark.brokers("redis")
def test_under_solo_a_task_looks_for_itself_and_gives_way(broker, app, start_worker, journal):
    start_worker(APP, pool="solo", concurrency=1)
    result = app.tasks["b.loop"].delay("a")
    journal.wait_started("a", timeout=30)
    _press(app, journal, "a")
    _assert_whole(result.get(timeout=20), journal, "a")
    assert journal.started()[1].startswith("quick")


@pytest.mark.brokers("rabbitmq")
def test_what_a_killed_worker_had_begun_goes_on_from_where_it_last_yielded(
    broker, app, start_worker, journal
):
    worker = start_worker(APP, pool="prefork", concurrency=1, env={"START_METHOD": "spawn"})
    app.tasks["b.loop"].delay("a")
    journal.wait_started("a", timeout=30)
    worker.stop(timeout=30)
    again = start_worker(APP, pool="prefork", concurrency=1, env={"ITEM_SECONDS": "100"})
    journal.wait(
        lambda entries: (
            [entry.label for entry in entries].count("a") == 2 and entries[-1].event == "item"
        ),
        timeout=30,
    )
    again.kill()
    start_worker(APP, pool="threads", concurrency=1)
    found = journal.wait_finished("a", timeout=30)[-1].more
    assert found["total"] == found["last"] * (found["last"] + 1) // 2
    labels = [entry.label for entry in journal.entries() if entry.event != "finish"]
    first, *resumed = [labels[place + 1] for place, label in enumerate(labels) if label == "a"]
    assert first == "a0"
    assert len(resumed) == 2
    assert resumed[0] == resumed[1] != "a0", journal.text()
