"""A replay of what a fleet has seen: held to loads of which the simulator knows the truth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_fair.observe.counterfactual import Watched, agrees, counterfactual, quantiles
from celery_fair.observe.finished import Finished
from celery_fair.observe.gathering import replay
from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import Arrivals, FairSetup, PlainSetup, Scenario, Work, constant, run, uniform
from celery_fair.sim.plain import Window

EPOCH = 1.8e9
POLICY = PolicySettings(reserve=1)
LOAD = Scenario(
    "observed",
    Work(constant(0.1), (Arrivals(4),)),
    Work(uniform(0.5, 1.5), (Arrivals(6.4), Arrivals(0.0, 60))),
    workers=1,
    slots=8,
    warmup=0.0,
    duration=120.0,
    grace=60.0,
    poll_seconds=1.0,
)
PLAIN = PlainSetup("plain", window=Window(4))


def seen(load=LOAD, setup=PLAIN) -> list[Finished]:
    """What a worker would know, as the simulator says that it was."""
    return [
        Finished(EPOCH + t.published, t.started - t.published, t.service, t.kind)
        for t in run(load, setup).tasks
    ]


def watched(tasks, since=EPOCH, **changes):
    given = {"slots": 8, "prefetch": 4, "policy": POLICY, "tasks": tasks, "since": since}
    return Watched(**{**given, **changes})


@pytest.fixture(scope="module")
def tasks():
    return seen()


def test_waits_would_have_been_those_of_the_same_load_with_celery_fair(tasks):
    found = counterfactual([watched(tasks)])
    truth = quantiles(t.wait for t in run(LOAD, FairSetup(POLICY)).of(INTERACTIVE))
    part = found.of[INTERACTIVE]
    assert part.error < 0.01
    assert part.measured["p95"] > 1.0
    assert agrees(truth["p95"], part.would_be["p95"])
    assert part.would_be["p95"] < 0.1


def test_a_span_that_begins_in_the_middle_of_a_backlog_has_its_slots_and_queues_full(tasks):
    """Else those published at its beginning would seem to meet an idle worker."""
    later = sorted(tasks, key=lambda task: task.finished_at)
    since = EPOCH + 20.0
    kept = [task for task in later if task.finished_at > since]
    found = counterfactual([watched(kept, since)])
    part = found.of[INTERACTIVE]
    assert part.tasks == sum(t.kind == INTERACTIVE and t.ready_at >= since for t in tasks)
    assert part.error < 0.1
    assert found.seconds == pytest.approx(later[-1].finished_at - since)


def test_batch_ends_no_earlier_for_the_last_and_it_is_said_how_much_later(tasks):
    part = counterfactual([watched(tasks)]).of[BATCH]
    assert part.error < 0.02
    assert -0.5 < part.later_last < 30.0
    assert part.later_mean > 0.0


def test_a_replay_that_doesnt_meet_what_was_measured_gives_no_figure(tasks):
    """As if half of the slots had been lost to something that nobody recorded."""
    found = counterfactual([watched(tasks, slots=12)])
    part = found.of[INTERACTIVE]
    assert part.would_be is None
    assert part.error > 0.15
    assert "a replay of plain Celery is off by" in part.why


def test_a_kind_of_which_too_little_was_seen_has_no_figure(tasks):
    few = [task for task in tasks if task.kind == BATCH]
    few += [task for task in tasks if task.kind == INTERACTIVE][:30]
    found = counterfactual([watched(few)])
    assert found.of[INTERACTIVE].why.startswith("too few tasks were published and ended: 30")
    assert found.of[INTERACTIVE].measured is None


def test_two_workers_count_from_when_both_know_all(tasks):
    load = replace(LOAD, workers=2, slots=4, fleet_delay_seconds=1.0)
    result = run(load, PLAIN)
    of = [
        [
            Finished(EPOCH + t.published, t.started - t.published, t.service, t.kind)
            for t in result.tasks
            if t.worker.index == index
        ]
        for index in (0, 1)
    ]
    fleet = [watched(of[0], slots=4), watched(of[1], EPOCH + 40.0, slots=4)]
    found = counterfactual(fleet)
    assert found.seconds == pytest.approx(found.until - EPOCH - 40.0)
    assert found.of[INTERACTIVE].error < 0.15
    assert found.slots == 8


def test_so_many_tasks_are_replayed_and_no_more(tasks):
    found = counterfactual([watched(tasks)], most_tasks=500)
    assert found.tasks <= 500
    assert found.seconds < 100.0


def test_a_long_time_is_cut_where_looking_at_queues_would_take_the_most(monkeypatch, tasks):
    monkeypatch.setattr("celery_fair.observe.counterfactual.MOST_LOOKS", 400)
    assert counterfactual([watched(tasks)]).seconds == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        ([], "no worker observes"),
        ([watched([])], "no task has ended yet"),
        ([watched([], kinds=(BATCH,))], "some workers serve one kind alone"),
        ([watched([]), watched([], policy=PolicySettings())], "workers differ in their settings"),
        (
            [watched([Finished(EPOCH, 1.0, 1.0, BATCH, dated=False)])],
            "1 of 1 messages don't say when they were published",
        ),
    ],
)
def test_where_there_is_nothing_to_replay_it_says_why(fleet, why):
    found = counterfactual(fleet)
    assert found.of is None
    assert why in found.why


def no_answer(nodes, arguments):
    raise AssertionError("nobody is to be asked")


@pytest.mark.parametrize(
    ("reports", "silent", "why"),
    [
        ({"w1": "observe", "w2": "enforce"}, {}, "w2 enforces"),
        ({"w1": "observe"}, {"w3": "plain"}, "w3 has no celery-fair"),
    ],
)
def test_a_fleet_of_which_a_part_is_not_seen_is_not_replayed(reports, silent, why):
    of = {node: {"mode": mode} for node, mode in reports.items()}
    assert why in replay(of, silent, no_answer).why


def test_a_fleet_that_enforces_has_no_replay():
    assert replay({"w1": {"mode": "enforce"}}, {}, no_answer) is None


def test_who_doesnt_answer_or_answers_nonsense_is_said():
    of = {"w1": {"mode": "observe"}}
    assert "no answer in time from w1" in replay(of, {}, lambda nodes, given: {}).why
    bad = {"w1": {"tasks": "nonsense", "first": 0, "oldest": 0}}
    assert "another version perhaps" in replay(of, {}, lambda nodes, given: bad).why
