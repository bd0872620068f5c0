"""What prefork's children run while the connection is lost; Celery < 5.7 forgets it."""

from __future__ import annotations

import pytest


@pytest.mark.brokers("redis")
def test_what_children_run_over_a_reconnect_keeps_its_slot_and_gives_it_back(site):
    """On 5.5 its callbacks never come; before 5.7 its child passes for idle, and gets one more."""
    worker = site.start(pool="prefork", concurrency=3, settings={"reserve": 1})
    site.block("b.until", "long", "longer")
    site.journal.wait_started("long", "longer")
    site.reconnect(worker)
    assert site.ask(worker)["kinds"]["batch"]["running"] == 2
    for label in ("one", "two", "three", "four"):
        site.send("i.sleep", label)
    site.journal.wait_finished("one", "two", "three", "four")
    site.release()
    free = site.wait_status(worker, lambda status: status["kinds"]["batch"]["running"] == 0)
    assert free["slots"]["audited"] == 0
