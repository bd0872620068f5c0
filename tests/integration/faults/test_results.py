"""What a pool child has to tell is heard, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0


@pytest.mark.parametrize("naive", ["", "forget_half_read_results"], ids=["cured", "naive"])
def test_a_result_that_is_half_read_when_the_connection_is_lost_is_read_to_its_end(
    site, naive, refuted
):
    """The rest would be taken for the next result: a child that is never heard again, or worse."""
    strike = f"send_half_until_reset:{site.folder / 'reset'}"
    worker = site.start(naive, pool="prefork", concurrency=1, env={"STRIKE": strike})
    site.send("b.failing", "failure")
    site.journal.wait_count(1, "half", LONG_SECONDS)
    site.ask(worker)  # the loop has been round since, and has read the first part
    site.cut(worker)
    labels = [f"after{number}" for number in range(5)]
    for label in labels:
        site.send("i.sleep", label)
    if naive:
        refuted(lambda: set(labels) <= set(site.journal.finished()), seconds=5)
        return
    site.journal.wait_finished(*labels, timeout=LONG_SECONDS)
    wait_until(lambda: site.ask(worker, "fair_books")["in_use"] == 0, "no slot to be in use")
    assert site.ask(worker)["slots"]["audited"] == 0
