"""What was ordered, in facts, words and sums: small whatever was ordered, and without secrets."""

from __future__ import annotations

import json
from collections import deque
from types import SimpleNamespace

from celery_fair.observe.steering import settings_facts, steering_facts, stops
from celery_fair.observe.total import total
from celery_fair.settings import FairSettings
from celery_fair.steering import EVERYBODY, Order, Orders, Pause
from celery_fair.worker.steering import Change
from celery_fair.worker.steering.settings import LiveSettings
from tests.unit.cli.replies import report

LEFT = {"done": False, "running": 2, "held": 0, "scheduled": 0, "rate_limited": 0}


def steering(pauses=(), drain=None, recent=(), not_in_force=None, **given):
    live = LiveSettings(FairSettings(**given), lambda settings: None)
    live.follow([Order(EVERYBODY, "set:reserve", True, 1, 1, "a", "ann@ops", 5.0)])
    return SimpleNamespace(
        live=live, orders=Orders([*live.orders.values()]), ongoing=list(pauses), drain=drain,
        left=lambda: LEFT, recent=deque(recent), not_in_force=not_in_force,
    )  # fmt: skip


def test_facts_name_what_is_in_force_since_when_and_by_whom():
    found = steering_facts(steering(
        [Pause("batch", "reports", "bob@ops", 7.0), Pause("batch", None, "ann@ops", 3.0)],
        recent=[Change("reserve", "auto", 1, "ann@ops", 5.0)],
    ))  # fmt: skip
    assert found["paused"][0] == {"kind": "batch", "queue": None, "by": "ann@ops", "at": 3.0}
    assert found["paused"][1]["queue"] == "reports"
    assert found["settings"]["reserve"] == {
        "value": 1, "by": "ann@ops", "at": 5.0, "keep": False,
    }  # fmt: skip
    assert found["recent"][0]["after"] == 1
    assert found["version"].startswith("1:")


def test_they_stay_small_whatever_is_paused_and_was_changed():
    pauses = [Pause("batch", f"queue-{n}-{'x' * 200}", "b" * 100, 7.0) for n in range(200)]
    changes = [
        Change(f"batch from {'q' * 200}", "running", "paused", "b" * 100, n) for n in [1] * 10
    ]
    found = steering_facts(steering(pauses, recent=changes))
    assert len(json.dumps(found)) < 3000
    assert len(found["paused"]) + found["paused_left_out"] == 200


def test_the_newest_changes_are_told_where_not_all_can_be():
    changes = [Change(f"n{n}", "running", "paused", "ann", n) for n in range(10)]
    told = steering_facts(steering(recent=changes))["recent"]
    assert [one["what"] for one in told][:2] == ["n9", "n8"]


def test_words_say_what_a_worker_leaves_alone():
    drain = SimpleNamespace(by="bob@ops", at=9.0)
    facts = {"steering": steering_facts(steering([Pause("batch", None, "ann@ops", 3.0)], drain))}
    assert stops(facts) == [("draining by bob@ops", 9.0), ("batch paused by ann@ops", 3.0)]


def test_one_that_only_observes_leaves_nothing_alone():
    paused = steering([Pause("batch", None, "ann@ops", 3.0)], not_in_force="it only observes")
    assert stops({"steering": steering_facts(paused)}) == []


def test_facts_of_a_worker_that_knows_no_orders_say_nothing():
    assert stops({}) == []


def test_the_total_counts_the_workers_that_leave_it_alone():
    one = {"steering": steering_facts(steering([Pause("batch", None, "ann@ops", 3.0)]))}
    found = total({"w1": report(**one), "w2": report(**one), "w3": report()})
    assert found["stops"] == {"batch paused by ann@ops": 2}


def test_settings_are_told_with_their_sources_and_never_with_secrets():
    secret = steering(tenant_hash_key="a-very-secret-key", state_url="redis://me:password@host/1")
    found = settings_facts(secret)
    assert found["settings"]["reserve"] == {
        "value": 1, "source": "live", "by": "ann@ops", "at": 5.0, "keep": False,
    }  # fmt: skip
    assert "secret" not in json.dumps(found)
    assert "password" not in json.dumps(found)
