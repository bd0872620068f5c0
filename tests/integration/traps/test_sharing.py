"""Each kind gets its part: among many queues, in short-lived children, beside a busy worker."""

from __future__ import annotations

import pytest

LONG_SECONDS = 25.0
RUN_SECONDS = 0.05
HALF = {"batch_share": 0.5}
"""The most that can be guaranteed, and so what is seen the soonest: about 1 s after a start."""


@pytest.mark.parametrize(
    ("broker", "naive"),
    [("redis", ""), ("redis", "interactive_always_first"), ("rabbitmq", "")],
    ids=["redis-cured", "redis-naive", "rabbitmq-cured"],
    indirect=["broker"],
)
def test_batch_gets_its_share_among_many_empty_queues(site, naive):
    """A strict order starves the last queue; a rotation over mostly empty ones is no share."""
    queues = ["celery", "celery.batch", *(f"q{number}" for number in range(3, 21))]
    _flood(site)
    site.start(naive, concurrency=2, queues=queues, settings=HALF)
    share = _batch_share(site, 80)
    assert share < 0.05 if naive else 0.1 <= share <= 0.55, share


@pytest.mark.parametrize("naive", ["", "interactive_always_first"], ids=["cured", "naive"])
def test_batch_gets_its_share_of_children_that_live_for_a_few_tasks(site, naive):
    """What is owed is counted in the main process, which outlives them."""
    _flood(site)
    site.start(
        naive, pool="prefork", concurrency=2, args=["--max-tasks-per-child=5"], settings=HALF
    )
    share = _batch_share(site, 80)
    assert share < 0.05 if naive else share >= 0.1, share


def _flood(site):
    """More of both kinds than are run while the share is measured."""
    with site.app.producer_or_acquire() as producer:
        for number in range(80):
            site.send("i.sleep", f"i{number}", RUN_SECONDS, producer=producer)
            site.send("b.sleep", f"b{number}", RUN_SECONDS, producer=producer)


def _batch_share(site, tasks):
    """Batch's part of the first tasks, as long as both kinds wait."""
    site.journal.wait_count(tasks, timeout=2 * LONG_SECONDS)
    finished = site.journal.finished()[:tasks]
    return sum(label.startswith("b") for label in finished) / len(finished)


@pytest.mark.parametrize("naive", ["", "count_a_task_twice"], ids=["cured", "naive"])
def test_quick_tasks_run_in_the_free_child_beside_a_blocked_one(site, naive, refuted):
    """A slot is a task that was started, and not also one that is on its way to a child."""
    site.start(naive, pool="prefork", concurrency=2, settings={"reserve": 0})
    site.block("b.until", "long")
    site.journal.wait_started("long")
    labels = [f"i{number}" for number in range(6)]
    for label in labels:
        site.send("i.sleep", label)
    if naive:
        refuted(lambda: site.journal.finished())
        return
    site.journal.wait_finished(*labels, timeout=LONG_SECONDS)
    assert site.journal.running() == ["long"]


@pytest.mark.parametrize("naive", ["", "keep_what_was_caught"], ids=["cured", "naive"])
def test_a_busy_worker_keeps_nothing_from_a_free_one(site, naive, refuted):
    """Its Redis pop was under way when its slot was taken, and catches one message more."""
    options = {
        "concurrency": 1,
        "conf": {"worker_prefetch_multiplier": 1},
        "settings": {"reserve": 0},
    }
    busy, free = site.start(naive, **options), site.start(naive, **options)
    for worker in (busy, free):
        site.wait_status(worker, lambda status: status["fleet"]["workers"] == 2)
    site.block("b.until", "long")
    site.journal.wait_started("long")
    for number in range(6):
        site.send("i.sleep", f"i{number}")
    if naive:
        refuted(lambda: len(site.journal.finished()) == 6)
        return
    site.journal.wait_finished(*(f"i{number}" for number in range(6)), timeout=LONG_SECONDS)
    assert site.journal.running() == ["long"]


@pytest.mark.parametrize(
    ("count", "naive"),
    [(0, ""), (70_000, ""), (70_000, "trust_the_prefetch_count")],
    ids=["none-cured", "many-cured", "many-naive"],
)
def test_a_prefetch_count_out_of_range_opens_no_gate(site, count, naive):
    """kombu switches prefetching off above 65535, and takes 0 for no limit: all would be pulled."""
    worker = site.start(naive, concurrency=2, env={"PREFETCH": str(count)})
    site.block("i.until", "i0", "i1")
    site.journal.wait_started("i0", "i1")
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == 0)
    for number in range(20):
        site.send("b.late", f"b{number}")
    if naive:
        site.wait_held(worker, "batch", 20)
        return
    site.ask(worker)
    site.ask(worker)
    assert site.held(worker, "batch") <= 1
