"""What a worker tells of what all workers share."""

from __future__ import annotations

from time import monotonic

import pytest

from celery_fair.errors import SettingsError, StateAway
from celery_fair.observe.resources import MOST, newest
from celery_fair.resources.store import ResourceView
from celery_fair.worker.resource_views import ResourceViews


def view(name="openai", running=3, waiting=0):
    return ResourceView(
        name, 8, {"interactive": 0, "batch": running}, {"interactive": waiting, "batch": 0},
        None, 1234.567, 0.5, 4.04,
    )  # fmt: skip


class Store:
    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def looked(*answers):
    found = ResourceViews(Store(*answers), is_set=True)
    for _ in answers:
        found.look()
    return found


def test_without_resources_there_is_no_thread_and_no_question():
    views = ResourceViews(Store(), is_set=False)
    views.start()
    assert views._thread is None
    assert views.report(0.0) == {
        "set": False, "unknown": False, "age_seconds": None, "of": [], "left_out": 0
    }  # fmt: skip


def test_a_look_is_told_as_facts():
    (one,) = looked([view()]).report(monotonic())["of"]
    assert one == {
        "name": "openai", "max_running": 8, "running": {"interactive": 0, "batch": 3},
        "waiting": {"interactive": 0, "batch": 0}, "requests_left": None, "tokens_left": 1234.57,
        "rate": 0.5, "slowed_seconds": 4.0,
    }  # fmt: skip


def test_an_outage_leaves_the_last_look_for_a_while():
    views = looked([view()], StateAway())
    now = monotonic()
    assert not views.report(now)["unknown"]
    assert views.report(now + 21)["unknown"]
    assert views.report(now + 21)["of"] == []
    assert views.report(now + 21)["age_seconds"] == pytest.approx(21, abs=1)


def test_what_is_wrong_is_said_once(caplog):
    looked(ValueError("odd"), ValueError("odd"))
    assert len(caplog.records) == 1


def test_without_a_redis_it_does_not_ask_again(caplog):
    views = looked(SettingsError(["resources: expected a Redis"]))
    assert views._ended.is_set()
    assert "expected a Redis" in caplog.text


def test_of_many_those_that_are_wanted_are_told():
    many = [view(f"r{number:02}", running=0, waiting=number) for number in range(MOST + 5)]
    report = looked(many).report(monotonic())
    assert report["left_out"] == 5
    assert [one["name"] for one in report["of"]] == [f"r{number:02}" for number in range(5, 25)]


def test_of_several_workers_the_youngest_look_counts():
    def report(age, **changes):
        return {"resources": {"set": True, "unknown": False, "age_seconds": age, **changes}}

    assert newest({"a": report(9.0), "b": report(2.0)})["age_seconds"] == 2.0
    assert newest({"a": report(1.0, unknown=True), "b": report(9.0)})["age_seconds"] == 9.0
    assert not newest({"old version": {}})["set"]
