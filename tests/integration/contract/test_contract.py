"""The promises of a worker, in small, on every broker and pool."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.brokers.waiting import wait_until
from tests.integration.contract.site import (
    Site,
    labels,
    most_at_once,
    of_kind,
    running_at,
    seconds_within,
)

SHARE = 0.2
RESERVE = 1
GUARANTEED = 1
"""``ceil(slots * share)``, for one slot and for four."""
MOMENT = 0.15


def test_everything_published_runs_exactly_once(site: Site):
    for number in range(20):
        site.publish("b.sleep", [f"once-b{number}"], 0.01)
        site.publish("i.sleep", [f"once-i{number}"], 0.01)
    site.wait_finished("once-", 40)
    starts = Counter(entry.label for entry in site.entries("once-") if entry.event == "start")
    assert set(starts) == {*labels("once-b", 20), *labels("once-i", 20)}
    assert set(starts.values()) == {1}


def test_interactive_starts_before_queued_batch(site: Site):
    """P1, over a full backlog of batch tasks that are long against the interactive ones."""
    backlog = 4 * site.slots + 4
    # Where a worker looks for each message, by a file or a query, those of a backlog last longer.
    site.publish("b.sleep", labels("p1-b", backlog), 0.6 if site.polls else 0.3)
    site.wait_running("p1-b", 1)
    site.publish("i.sleep", labels("p1-i", 6), 0.01)
    done = site.wait_finished("p1-", backlog + 6)
    order = [run.kind for run in done]
    first, last = order.index("interactive"), len(order) - 1 - order[::-1].index("interactive")
    # What was started, or on its way to the pool, when they came; the rest waits for all of them.
    assert order[last:].count("batch") >= backlog - 2 * site.slots - 1, order
    assert order[first:last].count("batch") <= site.slots // 2 + 1, order
    if site.slots > 1:
        # P3: what isn't owed leaves the reserve free. P4: and it takes all the rest.
        assert most_at_once(of_kind(done, "batch")) == site.slots - RESERVE


def test_interactive_alone_uses_every_slot(site: Site, tmp_path: Path):
    """P4."""
    site.publish("i.until", labels("p4-i", 4 * site.slots), str(tmp_path / "free"))
    site.wait_running("p4-i", site.slots)
    (tmp_path / "free").touch()
    done = site.wait_finished("p4-i", 4 * site.slots)
    assert most_at_once(done) == site.slots


def test_batch_keeps_its_share_of_a_flood_and_no_more(site: Site, tmp_path: Path):
    """P2 and P3: interactive tasks that fill the worker for some seconds, and batch beside them."""
    seconds = 0.15 if site.slots > 1 else 0.1
    count = max(20 * site.slots, 60)
    site.wait_open()  # else what shuts it here is not told
    before = len(site.log_text())
    # Until all is there: a machine that is slow to publish would have it run as it comes.
    site.publish("i.until", labels("hold", site.slots), str(tmp_path / "free"))
    site.wait_running("hold", site.slots)
    site.publish("i.sleep", labels("p2-i", count), seconds)
    site.publish("b.sleep", labels("p2-b", 6 * site.slots), seconds)
    published_at = time.time()
    (tmp_path / "free").touch()
    site.wait_logged("gate protected", after=before)
    done = site.wait_finished("p2-", count + 6 * site.slots)

    interactive, batch = of_kind(done, "interactive"), of_kind(done, "batch")
    for begin, end in site.protected(before):
        # What is started there; a moment passes between a dispatch and the task's first line.
        within = [run for run in batch if begin + MOMENT <= run.started_at < end]
        assert all(running_at(within, run.started_at) <= GUARANTEED for run in within)

    begin = max(interactive[2 * site.slots].started_at, published_at)
    end = interactive[-site.slots].started_at
    assert any(begin <= run.started_at < end for run in batch), "batch was starved"
    longest = max(run.seconds for run in of_kind(site.runs(""), "batch"))
    got = seconds_within(batch, begin, end)
    # Of what the slots have worked: where the machine is slow, each is idle between two tasks.
    worked = got + seconds_within(interactive, begin, end)
    owed = SHARE * (worked - site.slots * longest)
    # Less than all of it, since a slot is taken for longer than the journal sees the task run;
    # a transport that polls has no message there whenever a slot frees.
    part = 0.3 if site.polls else 0.8
    assert got >= part * owed - 2 * longest


def test_a_warm_restart_ends_every_message_once(site: Site):
    """P5, with messages of both kinds held, running and queued."""
    if site.worker is None:
        pytest.skip("memory:// does not outlive its worker")
    seconds = 0.1 * site.slots  # two seconds of work, most of it to come as the worker stops
    site.publish("b.sleep", labels("p5-b", 10), seconds)
    site.publish("i.sleep", labels("p5-i", 10), seconds)
    site.wait_finished("p5-", 4)
    with site.stopped():
        left = 20 - len(site.runs("p5-"))
        assert left > 0
        assert site.journal.running() == []
    site.wait_finished("p5-", 20)
    starts = Counter(entry.label for entry in site.entries("p5-") if entry.event == "start")
    assert set(starts) == {*labels("p5-b", 10), *labels("p5-i", 10)}
    assert set(starts.values()) == {1}


def test_a_change_of_mode_loses_nothing_and_repeats_nothing(site: Site):
    """P5, over changes in the middle of the work; late acks go to the channel they came by."""
    if site.staged or not site.app.connection().supports_exchange_type("fanout"):
        pytest.skip("this worker can't be told anything")
    site.publish("b.late", labels("m-late", 8), 0.05)
    site.publish("b.sleep", labels("m-b", 16), 0.05)
    site.publish("i.sleep", labels("m-eta", 2), countdown=1)
    site.wait_finished("m-b", 1)
    site.change_mode("observe")
    site.publish("b.late", labels("m-late2", 8), 0.05)
    site.publish("b.sleep", labels("m-due", 2), countdown=1)
    site.publish("i.sleep", labels("m-i", 4))
    site.wait_finished("m-late2", 1)
    site.change_mode("enforce")
    site.publish("i.sleep", labels("m-last", 4))
    site.wait_finished("m-", 44)
    starts = Counter(entry.label for entry in site.entries("m-") if entry.event == "start")
    assert len(starts) == 44
    assert set(starts.values()) == {1}
    report = wait_until(site.at_rest, "every slot to be free again")
    assert report["slots"]["audited"] == 0
