"""Limits and budgets of all workers: who may run, in which order, and what faults leave of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.memory_store import STARTING_SECONDS, MemoryStore
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import LEASE_SECONDS, Ended, Short, Turn, Want
from celery_fair.resources.walk import MOST_GRANTED, PATIENT_SECONDS
from tests.resources.machine import ResourceMachine

TestAnyOrder = ResourceMachine.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


class World:
    """A store, its clock, and workers who say what they want by one word a task."""

    def __init__(self, *rules: Resource, starting_seconds: float = 0.0) -> None:
        self.now = 0.0
        self.store = MemoryStore(
            {rule.name: rule for rule in rules},
            clock=lambda: self.now,
            starting_seconds=starting_seconds,
        )

    def turn(
        self,
        worker: str,
        wants: Iterable[Want] = (),
        running: Iterable[Want] = (),
        ended: Iterable[str] = (),
        *,
        began: bool = True,
    ) -> Turn:
        return self.store.turn(
            worker, list(wants), list(running), [Ended(one, began) for one in ended]
        )

    def granted(self, worker: str, *wants: Want) -> list[str]:
        return list(self.turn(worker, wants).granted)

    def wait(self, seconds: float, *looks: Any) -> None:
        """Let time pass as it does while somebody looks: in small steps."""
        while seconds > 1e-9:
            step = min(seconds, 1.0)
            self.now += step
            seconds -= step
            self.turn("looker")
            for look in looks:
                look()


def quick(lease: str, *uses: str, tokens: int = 0) -> Want:
    return Want(lease, INTERACTIVE, uses or ("r",), tokens)


def bulk(lease: str, *uses: str, tokens: int = 0) -> Want:
    return Want(lease, BATCH, uses or ("r",), tokens)


def of(kind: Kind, lease: str) -> Want:
    return Want(lease, kind, ("r",), 0)


# -- places ---------------------------------------------------------------------------------------


def test_no_more_run_than_there_are_places_in_all_workers_together() -> None:
    world = World(Resource("r", 2))
    assert world.granted("a", quick("1"), quick("2"), quick("3")) == ["1", "2"]
    turn = world.turn("b", [quick("4")])
    assert (list(turn.granted), turn.waits["4"].short) == ([], Short.RUNNING)
    assert turn.waits["4"].resource == "r"


def test_a_place_that_is_given_back_goes_to_who_asked_first_and_wakes_nobody_else() -> None:
    world = World(Resource("r", 1))
    world.granted("a", quick("1"))
    world.granted("b", quick("2"))
    world.granted("c", quick("3"))
    world.turn("a", ended=["1"])
    assert [world.store.woken(name, 0.0) for name in "abc"] == [False, True, False]
    turn = world.turn("c", [quick("3")])
    assert (list(turn.granted), turn.waits["3"].short) == ([], Short.IN_LINE)
    assert turn.waits["3"].before == 1
    assert world.granted("b", quick("2")) == ["2"]


def test_interactive_comes_before_batch_that_asked_first() -> None:
    world = World(Resource("r", 1))
    held = quick("0")
    world.granted("a", held)
    world.granted("b", bulk("1"), quick("2"))
    world.turn("a", ended=["0"])
    assert world.granted("b", bulk("1"), quick("2")) == ["2"]


def test_batch_leaves_the_reserve_free_and_interactive_uses_it() -> None:
    world = World(Resource("r", 4, interactive_reserve=0.5))
    turn = world.turn("a", [bulk(str(n)) for n in range(3)])
    assert list(turn.granted) == ["0", "1"]
    assert turn.waits["2"].short == Short.RESERVED
    assert world.granted("b", quick("3"), quick("4"), quick("5")) == ["3", "4"]


def test_one_place_is_for_both_however_much_is_reserved() -> None:
    world = World(Resource("r", 1, interactive_reserve=0.9))
    assert world.granted("a", bulk("1")) == ["1"]


def test_who_lacks_one_thing_stands_in_nobodys_way_who_uses_another() -> None:
    world = World(Resource("full", 1), Resource("free", 1))
    world.granted("a", quick("1", "full"))
    turn = world.turn("b", [quick("2", "full"), quick("3", "free", "full"), quick("4", "free")])
    assert list(turn.granted) == ["4"]
    assert {wait.resource for wait in turn.waits.values()} == {"full"}


def test_all_or_nothing_is_held_by_who_uses_several() -> None:
    world = World(Resource("x", 1), Resource("y", 1))
    assert world.granted("a", quick("1", "x", "y")) == ["1"]
    assert world.granted("b", quick("2", "x"), quick("3", "y")) == []
    world.turn("a", ended=["1"])
    assert sorted(world.granted("b", quick("2", "x"), quick("3", "y"))) == ["2", "3"]


def busy(world: World, names: str, *wants: Want) -> tuple[list[float], float]:
    """Streams of tasks of one resource each, never two that end at once, and some of several.

    Return when each of several was granted, and the part of the time in which places were used.
    """
    numbers, when, used = itertools.count(), [], 0.0
    waiting, running, ends = list(wants), dict[str, Want](), dict[str, float]()
    for tick in range(800):
        world.now = tick / 4.0
        for place, name in enumerate(names):
            if tick % 4 == place:
                waiting.append(quick(f"{name}{next(numbers)}", name))
        ended = [lease for lease in running if ends[lease] <= world.now]
        for lease in ended:
            del running[lease]
        turn = world.turn("w", waiting, running.values(), ended)
        for want in waiting:
            if want.lease in turn.granted:
                running[want.lease], ends[want.lease] = want, world.now + 1.0
                when += [world.now] if len(want.uses) > 1 else []
        waiting = [want for want in waiting if want.lease not in running]
        used += sum(len(want.uses) for want in running.values()) / len(names)
    return when, used / 800


def test_who_uses_two_comes_to_its_turn_though_others_always_take_one_of_them() -> None:
    world = World(Resource("x", 1), Resource("y", 1))
    world.granted("w", quick("first", "x"))
    when, used = busy(world, "xy", *(quick(str(n), "x", "y") for n in range(3)))
    assert len(when) == 3
    assert when[0] <= PATIENT_SECONDS + 2.0, "one task longer than it has to be patient"
    assert used >= 0.95, "and little stands idle for it"


def test_nothing_stands_idle_for_one_whose_budget_is_far_away() -> None:
    world = full(Resource("x", 1), Resource("y", None, None, 60.0))
    world.store.charge("y", tokens=600)
    world.granted("a", quick("1", "x", "y", tokens=1))
    world.wait(PATIENT_SECONDS, lambda: world.granted("a", quick("1", "x", "y", tokens=1)))
    assert world.granted("b", quick("2", "x")) == ["2"]


def test_a_turn_grants_so_many_and_the_next_the_others() -> None:
    world = World(Resource("r"))
    wants = [quick(f"{n:03}") for n in range(MOST_GRANTED + 3)]
    turn = world.turn("a", wants)
    assert list(turn.granted) == [want.lease for want in wants[:MOST_GRANTED]]
    assert {(wait.short, wait.seconds) for wait in turn.waits.values()} == {(Short.IN_LINE, 0.0)}
    assert len(world.turn("a", wants[MOST_GRANTED:], wants[:MOST_GRANTED]).granted) == 3


def test_a_look_ends_so_many_leases_and_the_next_the_others() -> None:
    world = World(Resource("r", 500))
    for n in range(10):
        world.turn(f"w{n}", running=[quick(f"{n}.{k}") for k in range(30)])
    world.now += 2.0
    for _ in range(5):
        world.now += 2.0
        world.turn("looker")
    left = [world.store.views()[0].running[INTERACTIVE] for _ in range(3)]
    assert left == [100, 0, 0]


def test_what_is_asked_for_twice_is_granted_once() -> None:
    world = World(Resource("r", 2))
    assert world.granted("a", quick("1")) == ["1"]
    assert world.granted("a", quick("1")) == ["1"]
    assert world.granted("b", quick("2"), quick("3")) == ["2"]


def test_a_grant_that_nobody_has_heard_of_is_given_back_when_it_isnt_wanted_any_more() -> None:
    world = World(Resource("r", 1))
    assert world.granted("a", quick("1")) == ["1"]
    world.turn("a")
    assert world.granted("b", quick("2")) == ["2"]


def test_who_is_woken_and_doesnt_come_keeps_nobody_waiting() -> None:
    world = World(Resource("r", 1))
    world.granted("a", quick("1"))
    world.granted("b", quick("2"))
    world.granted("c", quick("3"))
    world.turn("a", ended=["1"])
    world.now += 0.5
    assert world.granted("c", quick("3")) == []
    world.now += 0.6
    assert world.granted("c", quick("3")) == ["3"]


# -- batch's part ---------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [1, 2, 5])
def test_batch_gets_its_share_of_places_that_interactive_always_wants(places: int) -> None:
    world = World(Resource("r", places, batch_share=0.2))
    running: dict[str, tuple[Want, float]] = {}
    had = {INTERACTIVE: 0.0, BATCH: 0.0}
    numbers = iter(range(10**6))
    queue = {kind: [of(kind, f"{kind}{next(numbers)}") for _ in range(9)] for kind in had}
    while world.now < 400.0:
        ended = [lease for lease, (_, until) in running.items() if until <= world.now]
        for lease in ended:
            kind = running.pop(lease)[0].kind
            queue[kind].append(of(kind, f"{kind}{next(numbers)}"))
        wants = [want for kind in had for want in queue[kind]]
        turn = world.turn("a", wants, [want for want, _ in running.values()], ended)
        for want in wants:
            if want.lease in turn.granted:
                queue[want.kind].remove(want)
                running[want.lease] = (want, world.now + 1.0)
        for want, _ in running.values():
            had[want.kind] += 0.25
        world.now += 0.25
    share = had[BATCH] / (had[BATCH] + had[INTERACTIVE])
    assert 0.17 <= share <= 0.25
    assert sum(had.values()) >= 0.99 * 400.0 * places


def test_one_task_of_a_day_doesnt_make_batch_wait_for_hours() -> None:
    world = World(Resource("r", 5, batch_share=0.2))
    world.store._get("r")[1].mean = 86_400.0
    held = [quick(str(n)) for n in range(5)]
    world.granted("a", *held)
    began = world.now
    while world.now - began < 200.0:
        world.now += 1.0
        wants = [quick(f"q{world.now}"), bulk("b")]
        first = held.pop(0)
        turn = world.turn("a", wants, held, [first.lease])
        if "b" in turn.granted:
            break
        held.append(wants[0])
    assert 55.0 <= world.now - began <= 70.0


def test_batch_gets_its_share_of_tokens_that_interactive_always_wants() -> None:
    world = World(Resource("r", None, None, 6000.0, interactive_reserve=0.5, batch_share=0.2))
    numbers = iter(range(10**6))
    had = {INTERACTIVE: 0, BATCH: 0}
    wants = {}
    granted: list[str] = []
    while world.now < 600.0:
        for kind in had:
            while sum(want.kind == kind for want in wants.values()) < 3:
                lease = str(next(numbers))
                wants[lease] = Want(lease, kind, ("r",), 200)
        granted = list(world.turn("a", list(wants.values()), ended=granted).granted)
        for lease in granted:
            had[wants.pop(lease).kind] += 200
        world.now += 0.5
    assert 0.9 * 60_000 <= sum(had.values()) <= 61_000
    assert 0.17 <= had[BATCH] / sum(had.values()) <= 0.25


# -- budgets --------------------------------------------------------------------------------------


def test_requests_and_tokens_come_by_the_minute_and_a_burst_is_bounded() -> None:
    world = World(Resource("r", None, 60.0, 6000.0, burst_seconds=5.0))
    world.turn("a", [])
    world.store.charge("r")
    world.wait(60.0)
    wants = [quick(str(n), tokens=10) for n in range(9)]
    assert world.granted("a", *wants) == list("01234")
    world.wait(3.0)
    turn = world.turn("a", wants[5:], ended="01234")
    assert len(turn.granted) == 3
    assert turn.waits["8"].short == Short.REQUESTS
    assert turn.waits["8"].seconds == pytest.approx(1.0)


def full(*rules: Resource) -> World:
    """A world in which budgets are full."""
    world = World(*rules)
    for rule in rules:
        world.store.charge(rule.name)
    world.wait(120.0)
    return world


def test_a_large_request_waits_for_its_tokens_and_small_ones_dont_pass_it() -> None:
    world = full(Resource("r", None, None, 6000.0, burst_seconds=6.0))
    assert world.granted("a", quick("1", tokens=500)) == ["1"]
    turn = world.turn("a", [quick("2", tokens=300), quick("3", tokens=10)], [quick("1")])
    assert list(turn.granted) == []
    assert turn.waits["2"].short == Short.TOKENS
    assert turn.waits["2"].seconds == pytest.approx(2.0)


def test_one_larger_than_a_burst_waits_for_a_full_budget_and_makes_it_negative() -> None:
    world = full(Resource("r", None, None, 6000.0, burst_seconds=6.0))
    assert world.granted("a", quick("1", tokens=5000)) == ["1"]
    assert world.store.views()[0].tokens_left == pytest.approx(-4400.0)


def test_what_was_used_beyond_the_estimate_is_waited_for_by_all() -> None:
    world = full(Resource("r", None, None, 6000.0, burst_seconds=6.0))
    world.store.charge("r", tokens=1600)
    turn = world.turn("a", [quick("1", tokens=100)])
    assert turn.waits["1"].seconds == pytest.approx(11.0)
    world.store.charge("r", tokens=-1100)
    assert world.granted("a", quick("1", tokens=100)) == ["1"]


def test_a_charge_by_mistake_makes_all_wait_for_an_hour_at_most() -> None:
    world = full(Resource("r", None, None, 6000.0, burst_seconds=6.0))
    world.store.charge("r", tokens=999_999_999)
    turn = world.turn("a", [quick("1", tokens=100)])
    assert turn.waits["1"].seconds == pytest.approx(3601.0)


def test_what_never_ran_gets_its_budget_back() -> None:
    world = full(Resource("r", None, 60.0, 6000.0, burst_seconds=6.0))
    world.granted("a", quick("1", tokens=600))
    world.turn("a", ended=["1"], began=False)
    view = world.store.views()[0]
    assert (view.requests_left, view.tokens_left) == (6.0, 600.0)


def test_batch_leaves_a_part_of_the_budget_to_interactive() -> None:
    world = full(Resource("r", None, 60.0, interactive_reserve=0.5, burst_seconds=10.0))
    assert len(world.granted("a", *(bulk(str(n)) for n in range(10)))) == 5
    assert len(world.granted("b", *(quick(f"q{n}") for n in range(10)))) == 5


def test_after_an_idle_hour_the_budget_is_full_though_nobody_looked() -> None:
    world = World(Resource("r", None, 60.0, burst_seconds=6.0))
    world.store.charge("r", requests=3)
    world.now += 3600.0
    assert world.store.views()[0].requests_left == 6.0


# -- 429 ------------------------------------------------------------------------------------------


def test_a_refusal_shuts_batch_out_and_slows_interactive() -> None:
    world = World(Resource("r", 4))
    world.store.slow_down("r", 20.0)
    turn = world.turn("a", [bulk("1"), quick("2"), quick("3"), quick("4")])
    assert list(turn.granted) == ["2", "3"]
    assert turn.waits["1"].short == Short.SLOWED
    assert turn.waits["1"].seconds == pytest.approx(20.0)
    assert turn.waits["4"].short == Short.SLOWED
    view = world.store.views()[0]
    assert (view.rate, view.slowed_seconds) == (0.5, 20.0)


def test_a_refusal_halves_what_comes_of_the_budget() -> None:
    world = World(Resource("r", None, 60.0, burst_seconds=60.0))
    world.store.charge("r")
    world.store.slow_down("r", 10.0)
    world.wait(10.0)
    assert world.store.views()[0].requests_left == pytest.approx(5.0)


def test_what_a_refusal_slows_saves_up_no_more_than_it_may_use() -> None:
    """Else all of a burst would come at once as soon as the resource serves again."""
    world = full(Resource("r", None, 60.0, burst_seconds=10.0))
    world.store.slow_down("r", 60.0)
    world.wait(60.0)
    assert world.store.views()[0].requests_left == pytest.approx(5.0)
    assert len(world.granted("a", *(bulk(str(n)) for n in range(10)))) == 5
    world.wait(120.0)
    assert world.store.views()[0].requests_left == pytest.approx(10.0)


def test_what_needs_more_than_a_slowed_burst_waits_for_a_full_one() -> None:
    world = full(Resource("r", None, None, 600.0, burst_seconds=10.0))
    world.store.slow_down("r", 1.0)
    want = Want("big", INTERACTIVE, ("r",), 1000)
    assert world.granted("a", want) == ["big"]
    assert world.store.views()[0].tokens_left == pytest.approx(50.0 - 1000.0)


def test_where_nothing_is_bounded_a_refusal_shuts_batch_out() -> None:
    world = World(Resource("r"))
    world.store.slow_down("r", 10.0)
    assert world.granted("a", bulk("1"), quick("2")) == ["2"]


# -- faults ---------------------------------------------------------------------------------------


def test_the_places_of_a_worker_that_died_come_back_after_its_lease() -> None:
    world = World(Resource("r", 1))
    world.granted("a", quick("1"))
    asked = []
    world.wait(LEASE_SECONDS - 0.5, lambda: asked.extend(world.granted("b", quick("2"))))
    assert asked == []
    world.wait(1.0, lambda: asked.extend(world.granted("b", quick("2"))))
    assert asked[0] == "2"


def test_what_a_worker_wants_is_forgotten_with_it() -> None:
    world = World(Resource("r", 1))
    world.granted("dead", quick("1"), quick("2"))
    world.wait(LEASE_SECONDS + 1.0)
    assert world.granted("b", quick("3")) == ["3"]
    assert world.store.views()[0].waiting[INTERACTIVE] == 0


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_no_jump_of_the_clock_ends_a_lease(seconds: float) -> None:
    world = World(Resource("r", 1))
    one = quick("1")
    world.granted("a", one)
    for _ in range(3):
        world.now += seconds
        assert world.granted("b", quick("2")) == []
        assert list(world.turn("a", running=[one]).lost) == []


def test_a_lease_that_had_ended_is_held_again_above_the_limit_and_nobody_gets_more() -> None:
    world = World(Resource("r", 1))
    one, two = quick("1"), quick("2")
    world.granted("a", one)
    world.wait(LEASE_SECONDS + 1.0)
    assert world.granted("b", two) == ["2"]
    assert list(world.turn("a", running=[one]).lost) == ["1"]
    assert world.store.views()[0].running[INTERACTIVE] == 2
    world.turn("b", ended=["2"])
    assert world.granted("b", quick("3")) == []
    world.turn("a", ended=["1"])
    assert world.granted("b", quick("3")) == ["3"]


def test_a_store_that_begins_grants_nothing_until_all_have_told_of_themselves() -> None:
    world = World(Resource("r", 2), starting_seconds=STARTING_SECONDS)
    turn = world.turn("a", [quick("1")])
    assert turn.waits["1"].short == Short.STARTING
    assert turn.waits["1"].seconds == STARTING_SECONDS
    world.turn("b", running=[quick("2"), quick("3")])
    world.wait(STARTING_SECONDS, lambda: world.turn("b", running=[quick("2"), quick("3")]))
    assert world.granted("a", quick("1")) == []
    world.turn("b", running=[quick("2")], ended=["3"])
    assert world.granted("a", quick("1")) == ["1"]


def test_a_task_that_outlives_its_worker_may_hold_on_under_another_name() -> None:
    world = World(Resource("r", 1))
    one = quick("1")
    world.granted("a", one)
    for _ in range(20):
        world.now += 2.0
        assert list(world.turn("a's child", running=[one]).lost) == []
        assert world.granted("b", quick("2")) == []
    world.turn("a's child", ended=["1"])
    assert world.granted("b", quick("2")) == ["2"]


def test_to_end_what_nobody_knows_does_nothing() -> None:
    world = World(Resource("r", 1))
    world.turn("a", ended=["nothing"], began=False)
    assert world.store.views()[0].running == {INTERACTIVE: 0, BATCH: 0}
