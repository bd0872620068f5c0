"""Tasks that may be waiting for their own children, over all workers and the broker."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from celery_fair.doctor import Replies
from celery_fair.doctor.asking import _next_messages, _parent
from celery_fair.doctor.inversions import inversion_findings
from tests.unit.cli.replies import report


@pytest.fixture
def look(make_app):
    fair = Fair.of(make_app())

    def look(parents=(), slots=8, **checkups):
        reports = {node: report(slots={"total": slots, "reserve": 0}) for node in checkups}
        replies = Replies(reports, {}, checkups=checkups, parents=dict(parents))
        return list(inversion_findings(fair, replies))

    return look


def worker(*running, kind="interactive", batch=(), interactive=()):
    return {
        "running": [{"id": id, "task": "shop.ask", "kind": kind, "seconds": 9.0} for id in running],
        "parents": {"interactive": dict(interactive), "batch": dict(batch)},
    }


def test_a_child_may_wait_in_the_parents_worker_in_another_or_at_the_broker(look):
    for found in (
        look(w1=worker("a", batch={"a": 2})),
        look(w1=worker("a"), w2=worker(batch={"a": 2})),
        look(parents={"batch": {"a": 2}}, w1=worker("a")),
    ):
        (finding,) = found
        assert (finding.id, finding.severity, finding.subjects) == ("F125", "warning", ("a",))
        assert "wait for batch tasks of their own: shop.ask (for 9 s)" in finding.what


def test_who_publishes_its_own_kind_or_is_batch_is_no_inversion(look):
    assert look(w1=worker("a", interactive={"a": 2})) == []
    assert look(w1=worker("a", kind="batch", batch={"a": 2})) == []
    assert look(w1=worker("a", batch={"b": 2})) == []


def test_a_cluster_whose_slots_are_all_held_so_is_an_error(look):
    batch = {"kind": "batch", "batch": {"a": 1, "b": 1}}
    (finding,) = look(slots=1, w1=worker("a", **batch), w2=worker("b", kind="batch"))
    assert finding.severity == "error"
    assert "Every slot (2) has a task whose children wait for one" in finding.what
    assert look(slots=2, w1=worker("a", **batch), w2=worker("b", kind="batch")) == []


@pytest.mark.parametrize(
    "message",
    [b"", b"{", b"[]", b'{"headers": null}', b'{"headers": {}}', b'{"headers": {"parent_id": 7}}'],
)
def test_a_message_that_is_none_of_ours_has_no_parent(message):
    assert _parent(message) is None


def test_the_parent_is_in_the_headers():
    assert _parent(b'{"headers": {"parent_id": "a"}}') == "a"


class Lists:
    """A Redis with one list, of messages of one parent."""

    def __init__(self, number, size=40):
        self.message = b'{"headers": {"parent_id": "a"}}'.ljust(size)
        self.messages = [self.message] * number
        self.pages = 0

    def lrange(self, key, start, end):
        self.pages += 1
        length = len(self.messages)
        return self.messages[max(length + start, 0) : max(length + end + 1, 0)]


@pytest.mark.parametrize(("number", "seen", "pages"), [(0, 0, 1), (30, 30, 2), (5000, 200, 10)])
def test_only_the_next_messages_of_a_list_are_looked_at(number, seen, pages):
    client = Lists(number)
    assert len(list(_next_messages(client, "celery.batch"))) == seen
    assert client.pages == pages


def test_large_messages_are_looked_at_no_further_than_a_few_pages():
    client = Lists(5000, size=1_000_000)
    assert len(list(_next_messages(client, "celery.batch"))) == 20
