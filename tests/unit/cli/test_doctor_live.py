"""What the doctor finds in the workers' answers: each where it is due, and where it is not."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from celery_fair.doctor import Replies, live_findings
from tests.unit.cli.replies import report

BOTH = frozenset({"celery", "celery.batch"})


@pytest.fixture
def look(make_app):
    fair = Fair.of(make_app())

    def look(reports=None, queues=None, stats=None):
        replies = {"w1": report()} if reports is None else reports
        consumed = dict.fromkeys(replies, BOTH) if queues is None else queues
        return live_findings(fair, Replies(replies, consumed, stats or {}))

    return look


def ids(findings) -> list[str]:
    return [finding.id for finding in findings]


def test_workers_in_order_have_no_finding(look):
    assert look({"w1": report(), "w2": report()}) == []


def test_a_queue_that_nobody_consumes_is_found(look):
    (finding,) = look(queues={"w1": frozenset({"celery"})})
    assert (finding.id, finding.severity) == ("F103", "error")
    assert "No worker consumes celery.batch (batch)" in finding.what
    assert finding.subjects == ("celery.batch",)


def test_one_worker_a_queue_is_enough(look):
    reports = {"w1": report(), "w2": report()}
    assert look(reports, {"w1": frozenset({"celery"}), "w2": frozenset({"celery.batch"})}) == []


def test_a_worker_without_the_plugin_on_our_queues_is_found(look):
    (finding,) = look(queues={"w1": BOTH, "old": frozenset({"celery", "else"})})
    assert (finding.id, finding.severity) == ("F104", "warning")
    assert "old: without celery-fair, consuming celery" in finding.what


def test_a_worker_without_the_plugin_on_other_queues_is_not(look):
    assert look(queues={"w1": BOTH, "old": frozenset({"else"})}) == []


def test_a_queue_that_only_a_plain_worker_consumes_is_consumed(look):
    found = look(queues={"w1": frozenset({"celery"}), "old": frozenset({"celery.batch"})})
    assert ids(found) == ["F104"]


def test_different_settings_are_found_with_the_default_of_the_one_that_set_nothing(look):
    (finding,) = look({"w1": report(), "w2": report(settings={"batch_share": 0.3})})
    assert finding.id == "F105"
    assert finding.what == "batch_share is 0.2 on w1, 0.3 on w2"


def test_a_default_that_is_written_out_is_not_different(look):
    assert look({"w1": report(), "w2": report(settings={"batch_share": 0.2})}) == []


def test_different_versions_are_found(look):
    (finding,) = look({"w1": report(), "w2": report(version="0.0.9")})
    assert finding.id == "F106"
    assert "0.0.9 on w2" in finding.what


def stats(pool="gevent", transport="amqp", heartbeat=120.0):
    return {
        "w1": {
            "pool": {"implementation": f"celery.concurrency.{pool}:TaskPool"},
            "broker": {"transport": transport, "heartbeat": heartbeat},
        }
    }


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_greenlets_on_rabbitmq_with_heartbeats_are_found(look, pool):
    (finding,) = look(stats=stats(pool))
    assert finding.id == "F006"
    assert f"the {pool} pool" in finding.what
    assert "(w1)" in finding.what


@pytest.mark.parametrize(
    "said",
    [
        stats(pool="prefork"),
        stats(transport="redis"),
        stats(heartbeat=0),
        {"w1": {"error": "no"}},
        {"w1": {}},
    ],
)
def test_other_pools_brokers_and_no_heartbeats_are_in_order(look, said):
    assert look(stats=said) == []
