"""What `fair top` takes of an event: anybody may publish one."""

from __future__ import annotations

import json

import pytest

from celery_fair.cli.top_facts import checked, plain
from tests.unit.cli.replies import report


def test_facts_come_back_in_their_own_shape():
    facts = checked(report())
    assert facts["slots"]["total"] == 8
    assert facts["gate"]["reason"] == "nothing interactive waits"
    assert facts["kinds"]["batch"]["queues"] == ["celery.batch"]


def test_what_a_later_version_tells_beside_it_is_left_out():
    assert "news" not in checked(report(news=[1, 2]))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("slots.total", "8"),
        ("slots.total", -1),
        ("slots.total", 10**30),
        ("slots", None),
        ("gate.since", float("nan")),
        ("gate.since", 1e300),
        ("gate.reason", ["a"]),
        ("version", 3),
        ("share.received", "half"),
        ("kinds.batch.held", 1.5),
        ("kinds.batch.held", True),
        ("kinds.batch.ready", {"q": "many"}),
        ("kinds.batch.wait_seconds", {"p95": float("inf")}),
        ("kinds.batch.waits", {"buckets": [0, "1"]}),
        ("kinds", {}),
    ],
)
def test_facts_of_another_shape_are_none(path, value):
    facts = json.loads(json.dumps(report()))
    *parents, name = path.split(".")
    part = facts
    for parent in parents:
        part = part[parent]
    part[name] = value
    assert checked(facts) is None


@pytest.mark.parametrize("facts", [[], "text", None, {}, 7])
def test_facts_that_are_no_object_are_none(facts):
    assert checked(facts) is None


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J", "\x9b31m", "\x1b]0;title\x07", "\r", "\n", "\u202e", "\u2028", "\ud800", "\x00"],
)
def test_nothing_that_a_terminal_obeys_is_left(hostile):
    facts = report()
    facts["gate"] = {**facts["gate"], "reason": f"before{hostile}after"}
    said = checked(facts)["gate"]["reason"]
    assert said.startswith("before")
    assert said.endswith("after")
    assert said.isprintable()


def test_words_of_any_language_stay():
    assert plain("worker@københavn 東京 – ünïcode") == "worker@københavn 東京 – ünïcode"
