"""What each metric reads in a worker's facts, and what it makes of facts that it doesn't know."""

from __future__ import annotations

import math
import re

import pytest

from celery_fair.observe.counts import BOUNDS
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.observe.metrics import EXPORTER, METRICS, UNREAD, documented
from celery_fair.observe.reading import OTHER, label
from celery_fair.policy.gate import CAUSES
from celery_fair.policy.idle import Idle
from tests.unit.observe.workers import facts, histogram, kind, resource, source, task

KINDS = ("interactive", "batch")
PARTS = ("ready", "held", "rate_limited", "scheduled")
LABELS = {
    "worker", "kind", "resource", "task", "outcome", "mode", "cause", "reason", "part", "queue",
    "version",
}  # fmt: skip


def read(name, source):
    """The samples of one metric, by their labels."""
    (metric,) = (metric for metric in METRICS if metric.name == f"celery_fair_{name}")
    samples = list(metric.read(source))
    found = dict(samples)
    assert len(found) == len(samples), "two samples with the same labels"
    assert all(len(labels) == len(metric.labels) for labels in found)
    return found


# The table


def test_no_two_metrics_give_a_series_the_same_name():
    names = [name for metric in (*METRICS, UNREAD, *EXPORTER) for name in metric.series]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("metric", [*METRICS, UNREAD, *EXPORTER], ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric):
    assert re.fullmatch(r"celery_fair_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert not re.search(r"_(milli|ms|minutes|percent)", metric.name)
    assert metric.type not in ("histogram", "summary") or metric.name.endswith("_seconds")
    assert set(metric.labels) <= LABELS
    assert metric.help.endswith(".")
    assert "|" not in metric.help


def test_every_metric_is_documented_with_all_its_labels():
    rows = {name: labels for name, _, labels, _, _ in documented()}
    assert rows["celery_fair_finished_total"] == "worker kind outcome"
    assert rows["celery_fair_exporter_connected"] == ""
    assert len(rows) == len(METRICS) + 1 + len(EXPORTER)


# A worker that has just started: all that can be known beforehand is there, at 0


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("finished_total", {(kind, outcome) for kind in KINDS for outcome in OUTCOMES}),
        ("dropped_total", {(kind, reason) for kind in KINDS for reason in DROPS}),
        ("idle_slot_seconds_total", {(reason.value,) for reason in Idle}),
        ("gate_changes_total", {(mode.value, cause.value) for mode in CAUSES
                                for cause in CAUSES[mode]}),
        ("gate_seconds_total", {("open",), ("protected",)}),
        ("waiting_tasks", {(kind, part) for kind in KINDS for part in PARTS}),
        ("queue_ready_tasks", {("interactive", "celery"), ("batch", "celery.batch")}),
        *((name, {(kind,) for kind in KINDS})
          for name in ("dispatched_total", "given_back_total", "would_have_held_total",
                       "running_tasks", "slot_seconds_total")),
        *((name, {()})
          for name in ("audit_corrections_total", "sensor_failures_total", "batch_owed",
                       "batch_last_start_timestamp_seconds", "gate_protected", "gate_blind",
                       "engine_queueing", "engine_unknown", "engine_probe_failures_total",
                       "resources_unknown", "resources_away", "resources_outages_total",
                       "places_lost_total", "hook_stuck_threads",
                       "clock_skew_clamps_total", "headers_missing_total",
                       "headers_unreadable_total", "observer_failures_total",
                       "batch_retries_delayed_total", "batch_retries_refused_total",
                       "yields_asked_total", "yield_slots_back_total",
                       "yield_reaction_seconds_total", "yield_slot_back_seconds_total")),
    ],
)  # fmt: skip
def test_series_are_there_at_0_from_the_start(name, labels):
    assert read(name, source()) == dict.fromkeys(labels, 0.0)


def test_every_metric_of_a_new_worker_can_be_read():
    for metric in METRICS:
        found = list(metric.read(source(task("t", succeeded=1))))
        unknown = metric.name.endswith(("share_received_ratio", "engine_pressure"))
        unknown = unknown or "resource" in metric.labels or "_tenant" in metric.name
        assert found or unknown, metric.name


def test_tenants_are_told_of_without_their_names_and_not_before_one_is_named():
    told = {"waiting": 3, "longest_wait_seconds": 1.5, "top": [{"tenant": "acme", "held": 2}]}
    found = source(batch=kind("celery.batch", tenants=told))
    assert read("tenants_waiting", found) == {("batch",): 3.0}
    assert read("tenant_longest_wait_seconds", found) == {("batch",): 1.5}
    assert not [metric.name for metric in METRICS if "tenant" in metric.labels]


def test_a_share_that_nobody_could_measure_is_missing():
    assert read("batch_share_received_ratio", source()) == {}
    share = {**facts()["share"], "received": 0.25}
    assert read("batch_share_received_ratio", source(share=share)) == {(): 0.25}


def test_the_pressure_of_an_engine_is_told_where_a_probe_answers():
    assert read("engine_pressure", source()) == {}
    engine = {**facts()["engine"], "pressure": 1.5, "queueing": True}
    assert read("engine_pressure", source(engine=engine)) == {(): 1.5}
    assert read("engine_queueing", source(engine=engine)) == {(): 1.0}


def test_a_resource_has_what_it_bounds():
    found = source(resources={**facts()["resources"], "of": [resource(), resource("gpu")]})
    assert read("resource_places", found) == {("openai",): 8, ("gpu",): 8}
    assert read("resource_running_tasks", found)["openai", "batch"] == 3
    assert read("resource_requests_left", found) == {}
    assert read("resource_tokens_left", found)["openai",] == -12.5


def test_however_many_are_told_of_few_are_shown_and_each_once():
    names = [f"r{number}" for number in range(1000)]
    told = [resource(), resource(), *map(resource, names)]
    found = source(
        resources={**facts()["resources"], "of": told},
        clearing={
            **facts()["clearing"],
            "places": dict.fromkeys([*names, "x" * 300, "x" * 301], 1),
        },
    )
    assert len(read("resource_places", found)) < 30
    assert len(read("places_held", found)) < 40


# Figures


def test_histograms_are_cumulative_and_end_with_all():
    found = read(
        "wait_seconds", source(batch=kind(waits=histogram((0.005, 2), (1.0, 3), (9e9, 1))))
    )
    buckets = dict(zip((*BOUNDS, math.inf), found["batch",].cumulative, strict=True))
    assert (buckets[0.0025], buckets[0.005], buckets[0.5]) == (0, 2, 2)
    assert (buckets[1.0], buckets[14400.0], buckets[math.inf]) == (5, 5, 6)
    assert found["batch",].sum_seconds == pytest.approx(3.01 + 9e9)
    assert found["interactive",].cumulative == (0,) * (len(BOUNDS) + 1)


def test_what_waits_is_told_by_part():
    batch = kind("b1", "b2", ready={"b1": 3, "b2": 4}, held=2, rate_limited=5, scheduled=6)
    found = read("waiting_tasks", source(batch=batch))
    assert [found["batch", part] for part in PARTS] == [7, 2, 5, 6]


def test_what_the_broker_does_not_tell_is_missing_and_not_0():
    found = source(batch=kind("b", ready=None, backlog=None, held=2, source_available=False))
    assert ("batch", "ready") not in read("waiting_tasks", found)
    assert read("waiting_tasks", found)["batch", "held"] == 2
    assert read("queue_ready_tasks", found) == {("interactive", "celery"): 0}
    assert read("source_available", found) == {("interactive",): 1, ("batch",): 0}


def test_a_queue_that_the_facts_left_out_is_missing_and_its_messages_count():
    batch = kind("b1", "b2", "b3", ready={"b1": 3}, ready_left_out=4)
    assert read("queue_ready_tasks", source(batch=batch)) == {
        ("interactive", "celery"): 0,
        ("batch", "b1"): 3,
    }
    assert read("waiting_tasks", source(batch=batch))["batch", "ready"] == 7


def test_the_gate_is_1_while_it_protects():
    gate = {"mode": "protected", "blind": True, "seconds": {"open": 3.5, "protected": 1.25},
            "changes": {"open": {}, "protected": {"late": 2}}}  # fmt: skip
    found = source(gate=gate)
    assert read("gate_protected", found) == {(): 1.0}
    assert read("gate_blind", found) == {(): 1.0}
    assert read("gate_seconds_total", found) == {("open",): 3.5, ("protected",): 1.25}
    assert read("gate_changes_total", found)["protected", "late"] == 2


def test_a_kind_is_paused_where_that_is_in_force_and_one_queue_of_it_is_not_all():
    pauses = [{"kind": "batch", "queue": None}, {"kind": "interactive", "queue": "chat"}]
    steering = {"paused": pauses, "draining": None, "not_in_force": None}
    assert read("paused", source(steering=steering)) == {("interactive",): 0.0, ("batch",): 1.0}
    observing = {**steering, "not_in_force": "it only observes"}
    assert read("paused", source(steering=observing)) == {("interactive",): 0.0, ("batch",): 0.0}


def test_tasks_have_success_and_failure_from_the_start_and_the_rest_as_it_comes():
    found = source(task("a", succeeded=3, lost=1, wait=2.0, run=8.0), task("b", of="interactive"))
    assert read("task_finished_total", found) == {
        ("batch", "a", "succeeded"): 3,
        ("batch", "a", "failed"): 0,
        ("batch", "a", "lost"): 1,
        ("interactive", "b", "succeeded"): 0,
        ("interactive", "b", "failed"): 0,
    }
    assert read("task_wait_seconds", found)["batch", "a"] == (4, 2.0)
    assert read("task_run_seconds", found)["batch", "a"] == (4, 8.0)


def test_the_info_names_version_and_mode():
    assert read("worker_info", source()) == {("0.1.0", "enforce"): 1.0}


# Facts of another version, or of nobody's


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("finished_total", source(batch=kind(finished={"succeeded": 2, "novel": 3, "newer": 4}))),
        ("task_finished_total", source(task("a", succeeded=2, novel=3, newer=4))),
    ],
)
def test_names_from_another_version_are_counted_together(name, found):
    samples = read(name, found)
    assert {labels: value for labels, value in samples.items() if labels[-1] == OTHER} == {
        (("batch", "a", OTHER) if name.startswith("task") else ("batch", OTHER)): 7
    }
    assert not {"novel", "newer"} & {labels[-1] for labels in samples}


@pytest.mark.parametrize(
    "value", ["5", [], {}, math.nan, math.inf, 10**400], ids=lambda value: str(value)[:8]
)
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        read("slots", source(slots={**facts()["slots"], "total": value}))


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("wait_seconds", kind(waits={"buckets": [1, 2], "sum": 3.0})),
        ("wait_seconds", kind(waits=None)),
        ("finished_total", kind(finished=["succeeded"])),
        ("queue_ready_tasks", kind(ready={"b": "many"})),
        ("running_tasks", {}),
    ],
)
def test_a_part_of_another_shape_is_refused(name, batch):
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        read(name, source(batch=batch or {"queues": []}))


def test_a_label_is_short_and_can_be_encoded():
    assert label("a" * 1000) == "a" * 200
    assert label("naïve \ud800") == "naïve \\ud800"
    with pytest.raises(TypeError):
        label(5)
