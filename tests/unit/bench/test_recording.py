"""What two looks at the workers' counts say of the time between them."""

from __future__ import annotations

import pytest

from celery_fair.bench.recording import Look, Sampled, buckets, counted, left, use_of_slots


def fair(slots=4, started_at=1.0, **kinds):
    """A report; each kind is (slot seconds, finished, buckets)."""
    parts = {"interactive": (0.0, 0, [0, 0]), "batch": (0.0, 0, [0, 0]), **kinds}
    return {
        "started_at": started_at,
        "slots": {"total": slots},
        "kinds": {
            kind: {
                "slot_seconds": seconds,
                "finished": {"succeeded": finished},
                "waits": {"buckets": counts},
            }
            for kind, (seconds, finished, counts) in parts.items()
        },
    }


def test_slot_time_is_what_was_added_between_the_looks():
    before = Look(0.0, {"w1": fair(batch=(5.0, 50, [1, 0]))})
    after = Look(10.0, {"w1": fair(batch=(25.0, 90, [3, 2]), interactive=(10.0, 10, [0, 7]))})
    assert counted(before, after, "batch", "slot_seconds") == 20.0
    assert buckets(before, after, "batch") == [2, 2]
    used = use_of_slots(before, after, Sampled())
    assert used["slots"] == 4
    assert used["slots_in_use"] == {"interactive": 1.0, "batch": 2.0}
    assert used["utilisation"] == 0.75
    assert used["batch_part"] == pytest.approx(2 / 3)
    assert used["tasks_a_second"] == 5.0


def test_workers_are_added_up():
    before = Look(0.0, {"w1": fair(), "w2": fair()})
    after = Look(1.0, {"w1": fair(batch=(1.0, 1, [1, 0])), "w2": fair(batch=(2.0, 1, [0, 1]))})
    assert buckets(before, after, "batch") == [1, 1]
    assert use_of_slots(before, after, Sampled())["slots_in_use"]["batch"] == 3.0


def test_a_worker_that_has_started_anew_begins_at_nothing():
    before = Look(0.0, {"w1": fair(batch=(500.0, 900, [9, 9]))})
    after = Look(1.0, {"w1": fair(started_at=2.0, batch=(3.0, 4, [1, 0]))})
    assert counted(before, after, "batch", "slot_seconds") == 3.0
    assert buckets(before, after, "batch") == [1, 0]


def test_a_worker_that_is_gone_is_named_and_counts_no_more():
    before = Look(0.0, {"w1": fair(), "w2": fair(batch=(5.0, 5, [5, 0]))}, {"p1": {}})
    after = Look(1.0, {"w1": fair()})
    assert left(before, after) == ["p1", "w2"]
    assert use_of_slots(before, after, Sampled())["utilisation"] == 0.0


def active(*queues):
    return [{"delivery_info": {"routing_key": queue}} for queue in queues]


def test_plain_workers_are_known_by_samples_of_what_they_run():
    stats = {"p1": {"pool": {"max-concurrency": 4}, "total": {"t": 10}}}
    later = {"p1": {"pool": {"max-concurrency": 4}, "total": {"t": 30}}}
    sampled = Sampled()
    sampled.add({"p1": active("celery", "bulk", "bulk")}, ["bulk"])
    sampled.add({"p1": active("bulk")}, ["bulk"])
    used = use_of_slots(Look(0.0, {}, stats), Look(10.0, {}, later), sampled)
    assert used["slots_in_use"] == {"interactive": 0.5, "batch": 1.5}
    assert used["utilisation"] == 0.5
    assert used["batch_part"] == 0.75
    assert used["tasks_a_second"] == 2.0
    assert used["sampled"] == 2


def test_what_nobody_looked_at_is_not_called_nothing():
    used = use_of_slots(Look(0.0, {}, {"p1": {}}), Look(1.0, {}, {"p1": {}}), Sampled())
    assert used["utilisation"] is None
    assert used["slots_in_use"] == {"interactive": None, "batch": None}
    assert used["batch_part"] is None


def test_an_answer_that_is_no_list_of_tasks_is_passed_over():
    sampled = Sampled()
    sampled.add({"p1": {"error": "no"}, "p2": [{"delivery_info": None}]}, ["bulk"])
    assert sampled.running == {"interactive": 1, "batch": 0}
