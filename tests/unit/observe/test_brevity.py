"""A reply stays small, and says what it leaves out."""

from __future__ import annotations

import json

import pytest

from celery_fair.observe.brevity import (
    COUNTS_BYTES,
    NAMES_BYTES,
    SETTING_BYTES,
    short_settings,
    shorten_lists,
)


def part(names, ready=None):
    return {"queues": list(names), "ready": ready}


def names(count, length=40, letter="q"):
    return [f"{letter}{number:0{length - 1}}" for number in range(count)]


def test_a_few_names_are_all_there():
    kinds = {"interactive": part(["a", "b"], {"a": 3}), "batch": part(["c"], None)}
    shorten_lists(kinds)
    assert kinds == {
        "interactive": {
            "queues": ["a", "b"],
            "queues_left_out": 0,
            "ready": {"a": 3},
            "ready_left_out": 0,
        },
        "batch": {"queues": ["c"], "queues_left_out": 0, "ready": None, "ready_left_out": 0},
    }


def test_many_names_are_cut_and_counted():
    kinds = {"interactive": part(["celery"]), "batch": part(names(200))}
    shorten_lists(kinds)
    kept = kinds["batch"]["queues"]
    assert kinds["interactive"]["queues"] == ["celery"]
    assert len(kept) + kinds["batch"]["queues_left_out"] == 200
    assert kept == names(200)[: len(kept)]
    assert NAMES_BYTES - 100 < len(json.dumps(kept)) <= NAMES_BYTES


def test_each_kind_has_half_at_least():
    kinds = {"interactive": part(names(200)), "batch": part(names(300, letter="b"))}
    shorten_lists(kinds)
    for kind in kinds.values():
        assert NAMES_BYTES // 2 - 50 < len(json.dumps(kind["queues"])) <= NAMES_BYTES // 2


def test_the_fullest_queues_are_kept_and_the_messages_of_the_others_counted():
    ready = {name: number + 1 for number, name in enumerate(names(200))}
    kinds = {"interactive": part([], {}), "batch": part([], ready)}
    shorten_lists(kinds)
    assert (kinds["interactive"]["queues"], kinds["interactive"]["ready"]) == ([], {})
    kept, left_out = kinds["batch"]["ready"], kinds["batch"]["ready_left_out"]
    assert list(kept.values()) == list(range(200, 200 - len(kept), -1))
    assert sum(kept.values()) + left_out == sum(ready.values())
    assert len(json.dumps(kept)) <= COUNTS_BYTES


@pytest.mark.parametrize("name", ["queue" * 51, "очередь" * 36, "q"])
def test_any_number_of_any_names_fits_into_eight_kilobytes(name):
    queues = [f"{name}{number}" for number in range(2000)]
    kinds = {
        kind: part(queues, dict.fromkeys(queues, 999_999)) for kind in ("interactive", "batch")
    }
    shorten_lists(kinds)
    settings = short_settings(
        {"queues": {"batch": queues}, "kinds": dict.fromkeys(queues, "batch")}
    )
    assert len(json.dumps([kinds, settings])) < 6000


def test_a_long_setting_is_a_digest_that_differs_with_it():
    one, other = ({"queues": {"batch": names(count)}} for count in (200, 201))
    assert short_settings(one) == short_settings(one)
    assert short_settings(one) != short_settings(other)
    assert len(json.dumps(short_settings(one))) < SETTING_BYTES
    assert short_settings({"reserve": 2, "queues": {"batch": ["b"]}}) == {
        "reserve": 2,
        "queues": {"batch": ["b"]},
    }
