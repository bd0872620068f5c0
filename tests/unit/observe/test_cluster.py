"""What a listener makes of the events: of workers, and of whoever else may publish them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.observe.cluster import GRACE_SECONDS, MISSED, Cluster
from celery_fair.observe.cluster import TASKS as MOST_TASKS
from celery_fair.observe.cluster import WORKERS as MOST_WORKERS


def event(name="w1@host", facts=None, tasks=(), every=1.0, type="worker-fair"):
    return {
        "type": type,
        "hostname": name,
        "fair_facts": {"started_at": 1.0} if facts is None else facts,
        "fair_tasks": list(tasks),
        "fair_every": every,
    }


def task(name, kind="batch", number=1):
    return {"kind": kind, "task": name, "outcomes": {"succeeded": number}}


def test_the_last_word_of_each_worker_is_kept():
    cluster = Cluster()
    assert cluster.hear(event("w2"), 0.0)
    assert cluster.hear(event("w1"), 0.0)
    assert cluster.hear(event("w1", {"started_at": 1.0, "mode": "observe"}), 1.0)
    assert list(cluster.alive(1.0)) == ["w1", "w2"]
    assert cluster.workers["w1"].facts["mode"] == "observe"


def test_a_worker_that_is_silent_or_said_goodbye_is_gone():
    cluster = Cluster()
    for name in ("silent", "leaving", "there"):
        cluster.hear(event(name), 0.0)
    cluster.hear({"type": "worker-offline", "hostname": "leaving"}, 1.0)
    assert list(cluster.alive(MISSED + GRACE_SECONDS)) == ["silent", "there"]
    cluster.hear(event("there"), 5.0)
    assert list(cluster.alive(MISSED + GRACE_SECONDS + 0.1)) == ["there"]
    assert cluster.lost == 1


def test_names_of_tasks_add_up_over_events_until_the_worker_starts_anew():
    cluster = Cluster()
    cluster.hear(event(tasks=[task("a"), task("b")]), 0.0)
    cluster.hear(event(tasks=[task("b", number=5), task("c")]), 1.0)
    heard = cluster.workers["w1@host"].tasks
    assert {name: one["outcomes"]["succeeded"] for (_, name), one in heard.items()} == {
        "a": 1,
        "b": 5,
        "c": 1,
    }
    cluster.hear(event(facts={"started_at": 2.0}, tasks=[task("c")]), 2.0)
    assert list(cluster.workers["w1@host"].tasks) == [("batch", "c")]


def test_other_events_and_other_peoples_are_left_alone():
    cluster = Cluster()
    for foreign in (
        {},
        {"type": "worker-heartbeat", "hostname": "w1"},
        {"type": "worker-fair"},
        {"type": "worker-fair", "hostname": ["w1"]},
    ):
        assert not cluster.hear(foreign, 0.0)
    assert cluster.unreadable == 0
    assert not cluster.hear({"type": "worker-fair", "hostname": "w1"}, 0.0)
    assert cluster.unreadable == 1
    assert cluster.alive(0.0) == {}


def test_there_is_an_end_to_invented_workers_and_tasks():
    cluster = Cluster()
    for number in range(MOST_WORKERS + 10):
        cluster.hear(event(f"w{number}"), 0.0)
    assert len(cluster.workers) == MOST_WORKERS
    assert cluster.hear(event("later"), 100.0)  # those are long gone
    for number in range(0, MOST_TASKS + 50, 10):
        cluster.hear(event("later", tasks=[task(f"t{n}") for n in range(number, number + 10)]), 101)
    assert len(cluster.workers["later"].tasks) == MOST_TASKS


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {"type": st.just("worker-fair"), "hostname": st.just("w") | anything},
        optional={"fair_facts": anything, "fair_tasks": anything, "fair_every": anything},
    )
)
def test_nothing_in_an_event_can_end_a_listener(message):
    cluster = Cluster()
    cluster.hear(message, 0.0)
    cluster.alive(1.0)


@pytest.mark.parametrize("every", [float("nan"), float("inf"), -5.0, 0.0, 3601, 10**400])
def test_a_strange_interval_keeps_nobody_for_ever(every):
    cluster = Cluster()
    assert not cluster.hear(event(every=every), 0.0)
    assert (cluster.unreadable, cluster.alive(0.0)) == (1, {})
