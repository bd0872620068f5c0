"""What Flower has heard, and the picture that the page is sent."""

from __future__ import annotations

import asyncio
import json

import pytest

from celery_fair.integrations.flower.history import STEPS
from celery_fair.integrations.flower.picture import CHANGES, SHOWN, WHY_IDLE
from celery_fair.integrations.flower.picture import picture as make
from celery_fair.integrations.flower.store import SILENT_SECONDS, Store
from celery_fair.policy.idle import Idle
from tests.flower.facts import STARTED_AT, event, facts, histogram, kind
from tests.unit.observe.workers import resource

NOW = 500.0
EPOCH = STARTED_AT + 60


def store_with(**told):
    """A store that has heard each worker's facts."""
    store = Store(NOW)
    for name, its in told.items():
        store.hear(event(name, its), NOW)
    return store


def picture(store, alive=(), now=NOW):
    return make(store.look(alive, now, EPOCH))


def test_without_a_worker_there_is_nothing_to_sum_up():
    made = picture(Store(NOW))
    assert (made["workers"], made["total"], made["heard_seconds_ago"]) == ([], None, None)
    assert len(made["waits"]["points"]) == STEPS


def test_a_worker_is_shown_with_slots_gate_share_and_age():
    store = store_with(w1=facts(interactive=kind("celery", running=3), mode="protected"))
    (worker,) = picture(store, now=NOW + 2)["workers"]
    assert worker["slots"] == {
        "total": 8, "reserve": 2, "batch_ceiling": 6, "interactive": 3, "batch": 0,
    }  # fmt: skip
    assert worker["gate"]["mode"] == "protected"
    assert worker["share"] == {"guaranteed": 0.2, "received": 0.3}
    assert (worker["age_seconds"], worker["stale"]) == (2.0, False)


def test_a_worker_that_misses_two_events_is_stale_and_then_gone():
    store = store_with(w1=facts())
    assert picture(store, now=NOW + 4)["workers"][0]["stale"]
    assert picture(store, now=NOW + 60)["workers"] == []


def test_what_waits_is_told_by_part_and_messages_at_the_broker_count_once():
    waiting = kind("reports", ready={"reports": 40}, held=3, uncleared=5, scheduled=7)
    made = picture(store_with(w1=facts(batch=waiting), w2=facts(batch=waiting)))
    assert made["total"]["kinds"]["batch"] == {
        "running": 0, "served": True, "ready": 40, "held": 6, "rate_limited": 0, "uncleared": 10,
        "scheduled": 14, "backlog": 56, "queues": [["reports", 40]], "more_queues": 0,
    }  # fmt: skip


def test_a_broker_that_nobody_can_read_is_unknown_and_not_nothing():
    made = picture(store_with(w1=facts(batch=kind("reports", ready=None))))
    batch = made["total"]["kinds"]["batch"]
    assert (batch["backlog"], batch["ready"]) == (None, None)


def test_changes_of_all_gates_come_newest_first_and_bounded():
    def history(offset):
        return [[STARTED_AT + n + offset, "open", "empty", "because"] for n in range(0, 60, 2)]

    made = picture(store_with(w1=facts(history=history(0)), w2=facts(history=history(1))))
    assert len(made["changes"]) == CHANGES
    assert [change["worker"] for change in made["changes"][:3]] == ["w2", "w1", "w2"]
    assert made["changes"][0]["at"] == STARTED_AT + 59


def test_waits_are_what_was_gained_between_two_events():
    store = store_with(w1=facts())
    store.hear(event("w1", facts(interactive=kind("c", waits=histogram(b4=10)))), NOW + 1)
    assert picture(store, now=NOW + 1)["waits"]["points"][-1][1] == pytest.approx(0.02425)


def test_a_worker_that_was_away_for_long_adds_no_lump():
    store = store_with(w1=facts())
    later = facts(interactive=kind("c", waits=histogram(b4=10)))
    store.hear(event("w1", later), NOW + 500)
    assert picture(store, now=NOW + 500)["waits"]["points"][-1][1] is None


def test_workers_without_facts_are_named_once_they_had_the_time_to_tell():
    store = store_with(w1=facts())
    store.hear({"type": "worker-heartbeat", "hostname": "plain"}, NOW)
    assert picture(store, ["plain", "w1"], NOW + 1)["without"] == []
    store.hear(event("w1", facts()), NOW + SILENT_SECONDS)
    assert picture(store, ["plain", "w1"], NOW + SILENT_SECONDS + 1)["without"] == ["plain"]


def test_a_worker_that_is_no_longer_heard_of_is_not_blamed():
    store = store_with(w1=facts())
    store.hear({"type": "worker-heartbeat", "hostname": "plain"}, NOW)
    assert picture(store, ["w1"], NOW + 20)["without"] == []


def test_a_worker_that_has_told_facts_and_fell_silent_is_not_said_to_have_none():
    store = store_with(w1=facts())
    assert picture(store, ["w1"], NOW + 60)["without"] == []


def test_one_that_came_back_without_them_is():
    store = store_with(w1=facts())
    store.hear({"type": "worker-online", "hostname": "w1"}, NOW + 10)
    assert picture(store, ["w1"], NOW + 60)["without"] == ["w1"]


def test_any_number_of_viewers_costs_one_picture():
    store = store_with(w1=facts())

    async def look_twice():
        return await store.picture([]), await store.picture([])

    one, other = asyncio.run(look_twice())
    assert one is other


def test_only_so_many_workers_are_drawn_and_the_sums_are_over_all():
    made = picture(store_with(**{f"w{n:04}": facts() for n in range(SHOWN + 20)}))
    assert (len(made["workers"]), made["left_out"]) == (SHOWN, 20)
    assert made["total"]["slots"]["total"] == 8 * (SHOWN + 20)


BROKEN = {
    "nothing": {},
    "text for a number": {**facts(), "slots": {"total": "many"}},
    "more slots than can be drawn": facts(slots=10**9),
    "fewer than none": facts(interactive=kind("c", running=-1)),
    "a number too large for anything": facts(batch=kind("b", running=10**400)),
    "a list for an object": facts(gate=[]),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_facts_of_nobody_are_named_and_harm_no_one_else(broken):
    made = picture(store_with(w1=facts(), odd=broken))
    assert made["unreadable"] == ["odd"]
    assert [worker["name"] for worker in made["workers"]] == ["w1"]
    assert made["total"]["workers"] == 1


SHARED = {"set": True, "unknown": False, "age_seconds": 1.0, "of": [resource()], "left_out": 0}


def test_what_workers_share_is_there_once_where_it_is_set():
    assert picture(store_with(w1=facts()))["shared"] is None
    made = picture(store_with(w1=facts(resources=SHARED), w2=facts(resources=SHARED)))["shared"]
    assert (made["engine"], made["unknown"]) == (None, False)
    (one,) = made["resources"]
    assert (one["name"], one["max_running"], one["running"]["batch"]) == ("openai", 8, 3)


@pytest.mark.parametrize(
    "broken",
    [
        {"of": [resource(running={"interactive": "many"})]},
        {"of": [resource(rate={})]},
        {"of": 7},
    ],
)
def test_what_nobody_can_share_is_not_drawn(broken):
    made = picture(store_with(w1=facts(resources={**SHARED, **broken})))
    assert made["shared"] is None


def test_what_json_in_a_browser_does_not_know_is_left_out():
    nan = facts(
        share={"guaranteed": float("nan"), "received": float("inf")},
        history=[[float("nan"), "open", "", ""], "x", [10**400, "", "", ""], [1.0, "open", "", ""]],
    )
    made = picture(store_with(w1=nan))
    json.dumps(made, allow_nan=False)
    assert made["workers"][0]["share"]["guaranteed"] is None
    assert len(made["changes"]) == 1


def test_long_names_are_cut():
    made = picture(store_with(**{"w" * 5000: facts(version="v" * 5000)}))
    assert len(json.dumps(made["workers"])) < 2000


@pytest.mark.parametrize(
    "event", [{}, {"type": 7, "hostname": "w"}, {"type": "worker-fair", "hostname": []}]
)
def test_events_that_are_none_are_passed_over(event):
    store = Store(NOW)
    store.hear(event, NOW)
    assert store.cluster.workers == {}


def test_nothing_but_the_facts_is_shown():
    """Whoever publishes may put anything into an event; arguments, say, or a tenant."""
    told = {**facts(), "secret": "tenant-7", "settings": {"secret": "tenant-7"}}
    assert "tenant-7" not in json.dumps(picture(store_with(w1=told)))


def test_every_reason_for_an_idle_slot_is_explained():
    assert set(WHY_IDLE) == {reason.value for reason in Idle}
