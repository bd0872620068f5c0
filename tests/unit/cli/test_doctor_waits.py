"""What the doctor finds in gates, reserves, run times and clocks of workers."""

from __future__ import annotations

import time

import pytest

from celery_fair import Fair
from celery_fair.doctor import Replies, live_findings
from tests.unit.cli.conftest import add_task
from tests.unit.cli.replies import histogram, kind, report, wait

BOTH = frozenset({"celery", "celery.batch"})
REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
def app(make_app):
    return make_app(REDIS)


@pytest.fixture
def look(app):
    """``look(w1=report(), …, checkups={…})``: findings by id."""

    def look(checkups=(), asked=(100.0, 101.0), **reports):
        replies = Replies(reports, dict.fromkeys(reports, BOTH), {}, dict(checkups), asked)
        return {finding.id: finding for finding in live_findings(Fair.of(app), replies)}

    return look


def interactive(p95=5.0, count=100, **changes):
    return kind("celery", wait_seconds=wait(p95=p95, count=count), **changes)


def late(**changes):
    """A worker whose interactive tasks wait, and whose gate has been shut now and then."""
    return report(interactive(), **changes)


def gate(open=3500.0, protected=100.0, changes=2):
    counted = {"open": {"empty": changes}, "protected": {}}
    return {"mode": "open", "since": 0, "reason": "", "blind": False, "changes": counted} | {
        "seconds": {"open": open, "protected": protected}
    }


# gates


def test_a_gate_that_never_closed_while_tasks_waited_is_found(look):
    found = look(w1=late(gate=gate(protected=0.0)), w2=report(gate=gate(protected=0.0)))
    assert found["F107"].subjects == ("w1",)
    assert "waited for 5.0 s on w1, with the gate open all along" in found["F107"].what


@pytest.mark.parametrize(
    "quiet", [interactive(p95=0.5), interactive(count=19), interactive(p95=None, count=0)]
)
def test_short_waits_and_few_tasks_say_nothing_of_a_gate(look, quiet):
    assert look(w1=report(quiet, gate=gate(protected=0.0))) == {}


def test_a_gate_that_closed_is_not_one_that_never_did(look):
    assert "F107" not in look(w1=late())


def test_the_promise_is_the_workers_own(look):
    patient = {"settings": {"protect_wait_seconds": 3.0}}
    assert look(w1=late(gate=gate(protected=0.0), **patient)) == {}


def test_a_gate_that_was_shut_nearly_all_the_time_is_found(look):
    found = look(w1=report(gate=gate(open=50.0, protected=950.0)), w2=report())
    assert found["F108"].what == "The gate was shut for most of the time: w1 95%"
    assert look(w1=report(gate=gate(open=5.0, protected=95.0))) == {}  # too young
    assert look(w1=report(gate=gate(open=500.0, protected=500.0))) == {}


def test_a_gate_that_flaps_is_worth_a_note(look):
    found = look(w1=report(gate=gate(changes=3000)))
    assert (found["F109"].severity, found["F109"].what) == (
        "info",
        "Changes of the gate a minute: w1 50",
    )
    assert look(w1=report(gate=gate(changes=600))) == {}


def test_a_worker_that_sees_nothing_of_its_queues_is_found(look):
    unseen = {"available": False, "reads": 0, "failures": 3, "latency_seconds": 0.0}
    assert look(w1=report(sensor=unseen))["F110"].subjects == ("w1",)
    assert look(w1=report(sensor=unseen))["F110"].severity == "warning"
    assert look(w1=report(sensor={**unseen, "failures": 0}))["F110"].severity == "info"
    assert look(w1=report(sensor=unseen, gate=gate(open=5.0, protected=0.0))) == {}


def test_observing_workers_and_those_of_one_kind_have_no_gate_to_judge(look):
    shut = gate(open=50.0, protected=950.0)
    assert look(w1=report(gate=shut, mode="observe")) == {}
    assert look(w1=report(kind(), gate=shut)) == {}


# reserves


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"settings": {"reserve": 0}}, "reserve = 0"),
        ({"slots": {"total": 8, "reserve": 4}}, "half of its 8 slots already"),
    ],
)
def test_a_reserve_that_cannot_grow_while_tasks_wait_is_found(look, changes, reason):
    assert reason in look(w1=late(**changes))["F111"].what
    assert look(w1=report(**changes)) == {}


def test_a_reserve_with_room_is_left_to_itself(look):
    assert "F111" not in look(w1=late())


def test_one_slot_alone_for_both_kinds_is_found(look):
    one = {"slots": {"total": 1, "reserve": 0}}
    assert look(w1=report(fleet={"workers": 1, "slots": 1}, **one))["F112"].subjects == ("w1",)
    assert look(w1=report(fleet={"workers": 3, "slots": 3}, **one)) == {}
    assert look(w1=report(kind(), fleet={"workers": 1, "slots": 1}, **one)) == {}


# run times


def batch(**runs):
    return kind("celery.batch", runs=histogram(**runs))


def checkup(longest=(), at=100.5, celery="5.7.0", options=()):
    return {
        "time": at,
        "versions": {"celery": celery, "kombu": "5.7.0"},
        "transport_options": dict(options),
        "longest": {"interactive": [], "batch": list(longest)},
        "running": [],
        "parents": {"interactive": {}, "batch": {}},
    }


def test_long_batch_tasks_are_a_note_and_with_waits_a_warning(look):
    long = batch(s60=100)
    finding = look({"w1": checkup([["shop.report", 50.0, 100]])}, w1=report(batch=long))["F113"]
    assert finding.severity == "info"
    assert finding.what == "One batch task in twenty runs for 58 s or longer: shop.report 50 s"
    finding = look(w1=late(batch=long))["F113"]
    assert finding.severity == "warning"
    assert "interactive tasks have waited 5.0 s" in finding.what


def test_batch_tasks_that_have_all_the_slots_now_are_found_before_anything_ends(look):
    waits = kind("celery", ready={"celery": 60})
    shut = {"mode": "protected", "since": time.time() - 20, "reason": "", "blind": False}
    w1 = report(waits, gate=gate() | shut, settings={"reserve": 0})
    said = checkup()
    said["running"] = [{"id": "x", "task": "shop.report", "kind": "batch", "seconds": 23.0}]
    found = look({"w1": said}, w1=w1)
    assert "interactive tasks have waited 20.0 s" in found["F111"].what
    assert found["F113"].what == (
        "Batch tasks have run for 23 s by now, and interactive tasks have waited 20.0 s: "
        "shop.report 23 s"
    )
    w1["kinds"]["interactive"]["running"] = 1
    assert look({"w1": said}, w1=w1) == {}


def test_batch_tasks_shorter_than_the_waits_are_not_to_blame(look):
    assert "F113" not in look(w1=late(batch=batch(s1=100)))
    assert look(w1=report(batch=batch(s10=100))) == {}
    assert look(w1=report(batch=batch(s60=19))) == {}


def test_means_are_taken_over_all_workers(look):
    checkups = {
        "w1": checkup([["shop.report", 10.0, 30]]),
        "w2": checkup([["shop.report", 50.0, 10]]),
    }
    found = look(checkups, w1=report(batch=batch(s60=40)), w2=report())
    assert "shop.report 20 s" in found["F113"].what


def test_runs_that_outlast_the_broker_are_found_where_tasks_acknowledge_late(app, look):
    far = report(batch=batch(s7200=3, s60=1))
    assert "F003" not in look(w1=far)
    add_task(app, "shop.late", acks_late=True)
    finding = look(w1=far)["F003"]
    assert finding.what.startswith("3 runs were longer than the visibility_timeout of 3600 s; ")
    assert finding.subjects == ("shop.late",)
    assert "F003" not in look(w1=report(batch=batch(s3600=3)))


def test_long_tasks_that_acknowledge_early_are_worth_a_note(app, look):
    add_task(app, "shop.early")
    add_task(app, "shop.late", acks_late=True)
    said = {"w1": checkup([["shop.early", 600.0, 3], ["shop.late", 600.0, 3]])}
    assert (
        look(said, w1=report())["F114"].what == "Long tasks acknowledge early: shop.early (10 min)"
    )
    assert look({"w1": checkup([["shop.early", 50.0, 3]])}, w1=report()) == {}


# clocks


def test_a_clock_that_is_off_is_found_and_what_ntp_leaves_is_not(look):
    found = look({"w1": checkup(at=161.0), "w2": checkup(at=101.9)}, w1=report(), w2=report())
    assert found["F115"].what == "Clocks of workers against this machine's: w1 +60 s"


def test_messages_from_the_future_are_found_if_they_are_many(look):
    assert "12 on w1" in look(w1=report(clock_skew_clamps=12))["F115"].what
    assert look(w1=report(clock_skew_clamps=9)) == {}
    many = kind("celery", dispatched=2000)
    assert look(w1=report(many, clock_skew_clamps=12)) == {}


# losses


def test_a_task_that_ends_its_child_again_and_again_is_found(look):
    ended = [{"id": "x", "task": "shop.oom", "times": 2}]
    found = look(w1=report(ended_by_pool=ended), w2=report(ended_by_pool=ended))
    assert "shop.oom[x] 4 times" in found["F116"].what
    assert look(w1=report(ended_by_pool=ended)) == {}


def test_thousands_of_eta_tasks_are_found_where_nothing_limits_them(app, look):
    full = report(batch=kind("celery.batch", scheduled=6000))
    assert look(w1=full)["F117"].what == "Tasks that wait for their time: 6000 on w1"
    assert look(w1=report(batch=kind("celery.batch", scheduled=100))) == {}
    app.conf.worker_eta_task_limit = 10_000
    assert look(w1=full) == {}


# whatever is said


def test_an_answer_that_is_not_understood_is_named_and_the_rest_is_checked(look):
    broken = report(ended_by_pool=[{"id": "x", "task": "t", "times": 9}])
    del broken["gate"]["seconds"]
    found = look(w1=broken)
    assert found.keys() == {"F116", "F199"}
    assert found["F199"].what == "Not checked: gates (KeyError: 'seconds')"


def test_a_thousand_workers_are_one_finding_of_a_few_names(look):
    reports = {f"w{n}": late(gate=gate(protected=0.0)) for n in range(1000)}
    finding = look(**reports)["F107"]
    assert len(finding.subjects) == 1000
    assert "and 995 more" in finding.what
    assert len(finding.what) < 200
