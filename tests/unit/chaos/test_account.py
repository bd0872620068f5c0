"""The account of a chaos run: from lines of a journal to what was lost, and run twice."""

from __future__ import annotations

import itertools

import pytest

from tests.chaos.account import Key, Trouble, settle
from tests.nodes.journal import Entry

KEY = Key("1", 0)


def line(event, at, worker="w1", pid=1, name="i.late", **more):
    if event == "publishing":
        more["name"] = name
    return Entry(event, "1", "", "", None, at, pid, 1, {"retries": 0, "worker": worker, **more})


def sent(name="i.late"):
    return [line("publishing", 0.0, "", name=name), line("published", 0.1, "")]


def ran(at, end="finish", *, ack=0.0, worker="w1", pid=1):
    """A run from ``at`` to a second later, acknowledged ``ack`` seconds after its start."""
    lines = [line("start", at, worker, pid), line(end, at + 1.0, worker, pid)]
    return [*lines, line("acking", at + ack, worker)]


def account(*lines, troubles=(), at_broker=None, unread=()):
    return settle(itertools.chain(*lines), troubles, at_broker or {}, unread)


def test_a_message_that_ran_is_done_failed_or_retried():
    for end, outcome in (("finish", "done"), ("error", "failed"), ("retry", "retried")):
        found = account(sent(), ran(1.0, end, ack=1.1))
        assert found.outcomes[outcome] == found.published == 1
        assert not found.lost + found.twice + found.unasked


def test_a_message_without_a_run_is_lost_unless_it_is_still_at_the_broker():
    assert [history.key for history in account(sent()).lost] == [KEY]
    assert account(sent(), at_broker={KEY: 1}).at_broker == 1
    assert not account(sent(), at_broker={KEY: 1}).lost


def test_what_the_broker_popped_for_a_dying_worker_is_told_apart():
    found = account(sent(), unread=[KEY])
    assert not found.lost
    assert [history.key for history in found.unread] == [KEY]


@pytest.mark.parametrize("what", ["kill", "child"])
def test_an_acknowledged_task_whose_process_was_killed_was_killed_as_asked(what):
    killed = Trouble(what, "w1", 1.5, 1.6, pid=77)
    begun = [
        line("accepted", 1.0, accepted_by=77),
        line("acking", 1.0),
        line("start", 1.0, pid=77),
    ]
    found = account(sent("i.early"), begun, troubles=[killed])
    assert found.outcomes["killed as asked"] == 1
    assert not found.lost
    other = Trouble(what, "w2", 1.5, 1.6, pid=78)
    assert account(sent("i.early"), begun, troubles=[other]).lost


def test_a_killed_childs_task_is_given_up_seconds_later():
    begun = [
        line("accepted", 1.0, accepted_by=77),
        line("start", 1.0, pid=77),
        line("acking", 4.0),
    ]
    killed = Trouble("child", "w1", 1.1, 1.1, pid=77)
    found = account(sent("i.late"), begun, troubles=[killed])
    assert found.outcomes["killed as asked"] == 1
    assert not found.lost


def test_an_unacknowledged_task_whose_worker_was_killed_must_come_back():
    killed = Trouble("kill", "w1", 1.5, 1.6)
    begun = [line("start", 1.0)]
    assert account(sent(), begun, troubles=[killed]).lost
    again = account(sent(), begun, ran(5.0, ack=1.1, worker="w2"), troubles=[killed])
    assert not again.lost
    assert [history.key for history in again.twice] == [KEY]


def test_a_second_run_needs_a_death_during_the_first():
    runs = ran(1.0, ack=1.1) + ran(20.0, ack=1.1, worker="w2")
    during, after = (Trouble("cut", "w1", at, at + 0.1) for at in (1.5, 9.0))
    elsewhere = Trouble("cut", "w2", 1.5, 1.6)
    assert account(sent(), runs, troubles=[during]).twice
    for trouble in (after, elsewhere):
        assert account(sent(), runs, troubles=[trouble]).unasked


def test_a_second_run_after_a_warm_shutdown_is_counted_by_itself():
    runs = ran(1.0, ack=1.1) + ran(20.0, ack=1.1, worker="w2")
    during, after = (Trouble("stop", "w1", at, at) for at in (1.5, 9.0))
    found = account(sent(), runs, troubles=[during])
    assert found.extra_at_stop == found.extra_runs == 1
    assert not found.twice + found.unasked
    assert account(sent(), runs, troubles=[after]).unasked


def test_an_early_acknowledged_task_may_run_again_only_if_its_connection_died_at_its_start():
    runs = ran(1.0) + ran(20.0, worker="w2")
    at_its_start, at_its_end = (Trouble("cut", "w1", at, at + 0.1) for at in (1.0, 1.9))
    assert account(sent("i.early"), runs, troubles=[at_its_start]).twice
    assert account(sent("i.early"), runs, troubles=[at_its_end]).unasked


def test_a_connection_is_dead_until_its_worker_has_noticed():
    runs = ran(4.0, ack=1.1) + ran(20.0, ack=1.1, worker="w2")
    cut = Trouble("cut", "w1", 2.0, 2.1)
    assert account(sent(), runs, troubles=[cut]).unasked
    lost = [Entry("lost", "", "", "", None, 4.5, 1, 1, {"worker": "w1"})]
    assert account(sent(), runs, lost, troubles=[cut]).twice


def test_a_message_published_while_the_broker_died_may_be_there_twice():
    runs = ran(1.0, ack=1.1) + ran(3.0, ack=1.1)
    assert account(sent(), runs, troubles=[Trouble("broker", "", 0.05, 0.08)]).twice
    assert account(sent(), runs).unasked


def test_a_message_published_twice_must_run_twice():
    assert account(sent(), sent(), ran(1.0, ack=1.1)).lost
    found = account(sent(), sent(), ran(1.0, ack=1.1), ran(3.0, ack=1.1))
    assert found.outcomes["done"] == 2
    assert not found.lost + found.unasked
