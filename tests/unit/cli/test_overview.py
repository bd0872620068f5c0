"""What several workers' answers say together."""

from __future__ import annotations

from celery_fair.cli.overview import Answers, total
from celery_fair.observe.total import at_broker
from tests.unit.cli.replies import kind, report, wait


def batch_of(reports):
    return total(reports)["kinds"]["batch"]


def test_running_and_held_add_up():
    reports = {
        "w1": report(batch=kind("b", running=3, held=1)),
        "w2": report(batch=kind("b", running=4, held=2)),
    }
    assert batch_of(reports)["running"] == 7
    assert batch_of(reports)["held"] == 3


def test_messages_at_the_broker_count_once_however_many_workers_see_them():
    reports = {
        "w1": report(batch=kind("b", held=1, ready={"b": 100})),
        "w2": report(batch=kind("b", held=2, rate_limited=4, uncleared=64, ready={"b": 99})),
    }
    assert batch_of(reports)["ready"] == {"b": 100}
    assert batch_of(reports)["backlog"] == 100 + 1 + 2 + 4 + 64
    assert at_broker(batch_of(reports)) == 100


def test_a_worker_of_a_version_before_there_were_resources_has_nothing_waiting_for_them():
    old = kind("b", ready={"b": 3})
    del old["uncleared"]
    assert batch_of({"w1": report(batch=old)})["uncleared"] == 0


def test_messages_of_different_queues_add_up():
    reports = {
        "w1": report(batch=kind("b", "c", ready={"b": 5, "c": 1})),
        "w2": report(batch=kind("d", ready={"d": 7})),
    }
    assert batch_of(reports)["backlog"] == 13
    assert batch_of(reports)["queues"] == ["b", "c", "d"]


def test_one_worker_that_can_read_a_queue_is_enough():
    reports = {
        "w1": report(batch=kind("b", ready=None)),
        "w2": report(batch=kind("b", ready={"b": 5})),
    }
    assert batch_of(reports)["backlog"] == 5


def test_a_queue_that_nobody_can_read_makes_the_backlog_unknown():
    reports = {
        "w1": report(batch=kind("b", ready=None)),
        "w2": report(batch=kind("c", ready={"c": 5})),
    }
    assert batch_of(reports)["backlog"] is None


def test_quantiles_of_waits_are_bounded_by_the_largest():
    reports = {
        "w1": report(batch=kind("b", wait_seconds=wait(0.1, 0.5, 2.0, count=10))),
        "w2": report(batch=kind("b", wait_seconds=wait(0.2, 0.4, 3.0, count=5))),
        "w3": report(),
    }
    expected = {"count": 15, "p50": 0.2, "p95": 0.5, "p99": 3.0, "max": 3.0}
    assert batch_of(reports)["wait_seconds"] == expected


def test_shares_are_weighed_by_slots_and_unknown_ones_left_out():
    def share(received, slots):
        return report(
            slots={"total": slots, "reserve": 1},
            share={"guaranteed": 0.2, "received": received},
        )

    both = total({"w1": share(0.2, 2), "w2": share(0.4, 6), "w3": share(None, 100)})
    assert round(both["share"]["received"], 6) == 0.35
    assert total({"w3": share(None, 100)})["share"]["received"] is None


def test_the_last_batch_start_is_the_latest():
    reports = {
        "w1": report(last_batch_start=5.0),
        "w2": report(last_batch_start=7.0),
        "w3": report(last_batch_start=None),
    }
    assert total(reports)["last_batch_start"] == 7.0


def test_gates_are_counted_by_mode():
    shut = {**report()["gate"], "mode": "protected"}
    reports = {"w1": report(), "w2": report(gate=shut), "w3": report()}
    assert total(reports)["gates"] == {"open": 2, "protected": 1}


def test_a_task_that_several_workers_had_to_end_is_counted_as_one():
    def ended(*pairs):
        return [{"id": id, "task": "t", "times": times} for id, times in pairs]

    workers = {
        "w1": report(ended_by_pool=ended(("a", 1), ("b", 2))),
        "w2": report(ended_by_pool=ended(("a", 4))),
    }
    assert total(workers)["ended_by_pool"] == ended(("a", 5), ("b", 2))


def test_no_reports_have_an_empty_total():
    nothing = total({})
    assert nothing["workers"] == 0
    assert nothing["kinds"]["batch"]["backlog"] == 0


def test_an_unknown_command_means_that_the_plugin_is_not_installed():
    answers = Answers.of({"old": {"error": "KeyError('fair_status')"}, "w1": report()})
    assert answers.silent == {"old": "celery-fair is not installed there"}
    assert list(answers.reports) == ["w1"]


def test_other_errors_are_passed_on():
    answers = Answers.of({"w1": {"error": "celery-fair is not active"}, "w2": "no"})
    assert answers.silent == {"w1": "celery-fair is not active", "w2": "no"}


def test_what_workers_left_out_counts_once():
    cut = {**kind("b", held=1, ready={"b": 5}), "queues_left_out": 7, "ready_left_out": 30}
    more = {**cut, "ready_left_out": 31}
    batch = batch_of({"w1": report(batch=cut), "w2": report(batch=more)})
    assert batch["queues_left_out"] == 7
    assert batch["backlog"] == 5 + 31 + 2
