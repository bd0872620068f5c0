"""When a worker tells its facts, and how much at once."""

from __future__ import annotations

import logging

import pytest

from celery_fair.observe.events import TASKS, TYPE, UNWATCHED_SECONDS, WATCH_SECONDS, Announcer


class Sent:
    def __init__(self, fails=False):
        self.events, self.fails = [], fails

    def __call__(self, type, **fields):
        if self.fails:
            raise ConnectionError("gone")
        self.events.append((type, fields))


def announcer(tasks=0):
    return Announcer(
        lambda: {"version": "1", "settings": {"queues": []}, "ended_by_pool": []},
        lambda: [{"kind": "batch", "task": f"t{number}"} for number in range(tasks)],
    )


def times(one, sent, workers=1, until=60.0):
    """When events are sent, of a tick each tenth of a second."""
    found = []
    for tick in range(int(until * 10)):
        before = len(sent.events)
        one.tick(sent, workers, tick / 10)
        if len(sent.events) > before:
            found.append(tick / 10)
    return found


def test_unwatched_it_speaks_seldom():
    assert times(announcer(), Sent(), until=31.0) == [0.0, 10.0, 20.0, 30.0]


def test_watched_it_speaks_each_second_for_a_minute():
    one = announcer()
    one.watch(0.0)
    found = times(one, Sent(), until=90.0)
    watched = [at for at in found if at < WATCH_SECONDS]
    assert len(watched) == WATCH_SECONDS
    assert [at for at in found if at >= WATCH_SECONDS] == [69.0, 79.0, 89.0]


@pytest.mark.parametrize(("workers", "watched", "unwatched"), [(4, 1, 10), (200, 4, 40)])
def test_a_large_fleet_sends_no_more_events_a_second_than_a_small_one(workers, watched, unwatched):
    one = announcer()
    assert one.every_seconds(workers, 0.0) == unwatched
    one.watch(0.0)
    assert one.every_seconds(workers, 0.0) == watched


def test_fields_begin_with_fair_and_what_is_for_one_worker_alone_stays_there():
    sent = Sent()
    announcer(tasks=1).tick(sent, 1, 0.0)
    ((type, fields),) = sent.events
    assert type == TYPE == "worker-fair"
    assert all(name.startswith("fair_") for name in fields)
    assert fields["fair_facts"] == {"version": "1"}
    assert fields["fair_every"] == UNWATCHED_SECONDS


def test_names_of_tasks_come_in_turns_until_all_are_told():
    one, sent = announcer(tasks=2 * TASKS + 3), Sent()
    for number in range(4):
        one.tick(sent, 1, number * UNWATCHED_SECONDS)
    told = [[task["task"] for task in fields["fair_tasks"]] for _, fields in sent.events]
    assert [len(some) for some in told] == [TASKS, TASKS, 3, TASKS]
    assert len({task for some in told for task in some}) == 2 * TASKS + 3


def test_a_worker_without_events_stays_silent_and_a_failure_is_said_once(caplog):
    one = announcer()
    one.tick(None, 1, 0.0)
    broken = Sent(fails=True)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            one.tick(broken, 1, number * UNWATCHED_SECONDS)
    assert len(caplog.records) == 1
    one.tick(sent := Sent(), 1, 100.0)
    assert len(sent.events) == 1
