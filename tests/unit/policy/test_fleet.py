"""Workers that serve the same queues act as parts of one line of slots."""

from __future__ import annotations

import pytest

from celery_fair.policy import (
    BATCH,
    INTERACTIVE,
    FleetView,
    Load,
    Member,
    Policy,
    PolicySettings,
    fleet_view,
)
from celery_fair.policy.fleet import Segment
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.load import Mode
from celery_fair.policy.tenant_rules import TenantRules

BOTH_WAIT = Load(3, 5)
NO_INTERACTIVE = Load(0, 5, interactive_lane_empty=True)


def one_of(count, rank, *, reserve=2, interactive=0, batch=0, now=0.0, load=BOTH_WAIT):
    """A worker of one slot; ``interactive`` and ``batch`` run on the others."""
    policy = Policy(PolicySettings(reserve=reserve), slots=1, now=now)
    policy.see_fleet(FleetView(count, count, rank, interactive, batch), now)
    policy.observe(load, now)
    return policy


def test_a_view_adds_up_all_workers_and_ranks_them_by_name():
    me = Member("b", 2, 1, 0, 0.5, 0.1, 0.0, 0)
    others = [Member("c", 4, 0, 3, 0.0, 0.3, 2.0, 7), Member("a", 1, 0, 1, 1.0, 0.0, 4.0, 2)]
    assert fleet_view(me, [*others, Member("b", 9, 9, 9)]) == FleetView(
        workers=3,
        slots=7,
        slots_before=1,
        running_interactive=1,
        running_batch=4,
        interactive_rate=1.5,
        interactive_mean_seconds=pytest.approx(0.2),
        batch_mean_seconds=3.0,
        batch_finished=9,
    )


def test_what_nobody_knows_is_none():
    view = fleet_view(Member("a", 1, 0, 0), [])
    assert view.interactive_mean_seconds is None
    assert view.batch_mean_seconds is None


def test_parts_of_head_and_tail_add_up():
    parts = [Segment(first, first + 3, 12) for first in (0, 3, 6, 9)]
    assert [part.head(4) for part in parts] == [3, 1, 0, 0]
    assert [part.tail(5) for part in parts] == [0, 0, 2, 3]
    assert [part.distance(2) for part in parts] == [8, 5, 2, 0]


def test_a_worker_alone_has_the_whole():
    part = Segment.of(8, None)
    assert (part.head(3), part.tail(2)) == (3, 2)


def test_a_view_that_lags_behind_this_workers_slots_grows():
    assert Segment.of(4, FleetView(2, 3, 1, 0, 0)) == Segment(1, 5, 5)


def test_the_first_workers_are_the_reserve():
    assert [one_of(8, rank).pick(0, 1, 0.0) for rank in range(8)] == [None] * 2 + [BATCH] * 6
    assert [one_of(8, rank).reserve for rank in range(8)] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_the_reserve_takes_interactive_tasks():
    assert one_of(8, 0).pick(1, 1, 0.0) == INTERACTIVE


def test_the_last_workers_hold_the_guarantee():
    assert [one_of(8, rank).view(0.0).owed_ceiling for rank in (5, 6, 7)] == [1, 1, 1]
    busy = [one_of(8, rank, interactive=7) for rank in (5, 6, 7)]
    # 1.6 slot-seconds a second cover the unknown 1 s at 0.63; the sixth steps in much later.
    assert [policy.pick(1, 1, 0.7) for policy in busy] == [INTERACTIVE, BATCH, BATCH]


def test_where_the_guaranteed_slots_stay_taken_others_step_in_one_after_the_other():
    policy = one_of(8, 5, interactive=7)
    step = 2.5 * 0.2 * 8
    assert policy.pick(1, 1, (1 + step - 0.1) / 1.6) == INTERACTIVE
    assert policy.pick(1, 1, (1 + step + 0.1) / 1.6) == BATCH
    further = one_of(8, 4, interactive=7)
    assert further.pick(1, 1, (1 + step + 0.1) / 1.6) == INTERACTIVE


def test_batch_running_elsewhere_pays_the_debt():
    policy = one_of(8, 7, batch=3)
    policy.observe(BOTH_WAIT, 60.0)
    assert policy.pick(1, 1, 60.0) == INTERACTIVE


def test_what_ran_nowhere_is_owed_again():
    policy = one_of(8, 7, batch=2)
    policy.observe(BOTH_WAIT, 5.0)
    assert policy.pick(1, 1, 5.0) == INTERACTIVE
    policy.see_fleet(FleetView(6, 6, 5, 0, 0, unpaid_batch_seconds=10.0), 5.0)
    assert policy.view(5.0).debt_seconds == pytest.approx(8.0, abs=2.1)
    assert policy.pick(1, 1, 5.0) == BATCH


def test_owed_batch_counts_what_runs_elsewhere():
    policy = one_of(8, 7, interactive=7)
    policy.observe(BOTH_WAIT, 5.0)
    policy.see_fleet(FleetView(8, 8, 7, 5, 2), 5.0)
    assert policy.pick(1, 1, 5.0) == INTERACTIVE


def test_protected_batch_runs_only_on_the_guaranteed_slots():
    flood = Load(500, 5)
    policies = [one_of(8, rank, load=flood) for rank in range(8)]
    assert [p.pick(0, 1, 0.0) for p in policies] == [None] * 6 + [BATCH] * 2


def test_the_reserve_floats_over_the_fleet():
    # Two long interactive tasks run in the reserve: its two slots must come from elsewhere.
    assert one_of(8, 5, interactive=2, batch=4).pick(0, 1, 0.0) is None
    assert one_of(8, 5, interactive=2, batch=3).pick(0, 1, 0.0) == BATCH


def test_a_snapshot_of_one_short_interactive_task_holds_no_slot():
    policy = one_of(8, 5, reserve=1, batch=6)
    policy.see_fleet(FleetView(8, 8, 5, 1, 6), 0.25)
    assert policy.pick(0, 1, 0.25) == BATCH
    policy.see_fleet(FleetView(8, 8, 5, 1, 6), 5.0)
    assert policy.pick(0, 1, 5.0) is None


def test_without_a_view_it_is_on_its_own_again():
    policy = one_of(8, 0)
    assert policy.pick(0, 1, 0.0) is None
    policy.see_fleet(None, 1.0)
    assert policy.pick(0, 1, 1.0) == BATCH
    assert policy.view(1.0).fleet_workers == 1


def test_without_a_view_only_its_own_part_of_the_debt_is_left():
    policy = one_of(8, 7, interactive=7)
    policy.observe(BOTH_WAIT, 5.0)
    assert policy.view(5.0).debt_seconds == pytest.approx(8.0)
    policy.see_fleet(None, 5.0)
    assert policy.view(5.0).debt_seconds == pytest.approx(1.0)


def test_the_fleets_numbers_make_the_reserve():
    policy = Policy(PolicySettings(), slots=1, now=0.0)
    view = FleetView(8, 8, 0, 0, 4, 0.8, 3.0, 10.0, batch_finished=8)
    policy.see_fleet(view, 0.0)
    assert policy.fleet_reserve == 4


def test_a_newcomer_to_a_fleet_that_knows_its_batch_has_no_cold_start():
    policy = Policy(PolicySettings(), slots=1, now=0.0)
    policy.see_fleet(FleetView(8, 8, 0, 0, 4, 0.0, 3.0, 10.0, batch_finished=100), 0.0)
    assert policy.fleet_reserve == 1


def test_beyond_the_reserve_a_worker_leans_on_it():
    policy = one_of(8, 5, load=NO_INTERACTIVE)
    assert policy.credits(0.0).interactive == 0
    assert policy.credits(0.0).batch == 1
    assert policy.pick(0, 1, 0.0, interactive_empty=False) == BATCH


@pytest.mark.parametrize(
    ("rank", "others_run", "load"),
    [
        pytest.param(0, 0, NO_INTERACTIVE, id="it is the reserve"),
        pytest.param(5, 6, NO_INTERACTIVE, id="the reserve is used up"),
        pytest.param(5, 0, BOTH_WAIT, id="interactive tasks wait"),
        pytest.param(5, 0, Load(0, 0), id="no batch waits"),
        pytest.param(5, 0, Load(None, 5), id="the backlog is unknown"),
    ],
)
def test_it_asks_for_interactive_tasks_itself_when(rank, others_run, load):
    policy = one_of(8, rank, interactive=others_run, load=load)
    assert policy.credits(0.0).interactive == 1


def out_of_sight(count, rank, *, batch=0, now=0.0, load=BOTH_WAIT):
    policy = one_of(count, rank, batch=batch, now=now, load=load)
    policy.lose_sight(now)
    return policy


def test_out_of_sight_the_first_workers_are_still_the_reserve():
    picks = [out_of_sight(8, rank).pick(0, 1, 0.0) for rank in range(8)]
    assert picks == [None] * 2 + [BATCH] * 6
    view = out_of_sight(8, 0).view(0.0)
    assert (view.fleet_workers, view.fleet_slots, view.fleet_in_sight) == (8, 8, False)


def test_what_the_others_ran_last_holds_up_nobody_once_they_are_out_of_sight():
    """The last word of a fleet that had its guarantee would else starve batch for good."""
    seen = one_of(8, 7, batch=2)
    seen.observe(BOTH_WAIT, 5.0)
    assert seen.pick(1, 1, 5.0) == INTERACTIVE
    unseen = out_of_sight(8, 7, batch=2)
    unseen.observe(BOTH_WAIT, 5.0)
    assert unseen.pick(1, 1, 5.0) == BATCH


@pytest.mark.parametrize("rank", range(8))
def test_out_of_sight_the_last_workers_give_the_whole_guarantee(rank):
    """1.6 slots of 8 on two workers: 0.8 each. The others trust in them for five minutes."""
    policy, ran, now = out_of_sight(8, rank), 0.0, 0.0
    while now < 290.0:
        policy.observe(BOTH_WAIT, now)
        kind = policy.pick(1, 1, now)
        assert kind is not None
        policy.start(kind, now)
        now += 1.0
        policy.finish(kind, now, 1.0)
        ran += kind == BATCH
    assert ran / now == pytest.approx(0.8 if rank >= 6 else 0.0, abs=0.02)


@pytest.mark.parametrize("rank", [0, 5])
def test_out_of_sight_for_long_each_gives_batch_its_share_of_its_own_slots(rank):
    policy, ran, now = out_of_sight(8, rank), 0.0, 0.0
    while now < 1300.0:
        policy.observe(BOTH_WAIT, now)
        kind = policy.pick(1, 1, now)
        policy.start(kind, now)
        now += 1.0
        policy.finish(kind, now, 1.0)
        ran += kind == BATCH and now > 305.0
    assert ran / 995.0 == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(("rank", "after"), [(7, 5.0), (5, 15.0), (0, 100.0)])
def test_one_that_is_cut_off_gives_batch_its_share_of_its_own_slots(rank, after):
    """Those who don't see it care for theirs alone: together that is the share of the whole."""
    policy, ran, now = one_of(8, rank), 0.0, 0.0
    policy.lose_sight(0.0, cut_off=True)
    while now < after + 500.0:
        policy.observe(BOTH_WAIT, now)
        kind = policy.pick(1, 1, now)
        policy.start(kind, now)
        now += 1.0
        policy.finish(kind, now, 1.0)
        ran += kind == BATCH and now > after
    assert ran / 500.0 == pytest.approx(0.2, abs=0.02)


def test_a_view_brings_the_others_back():
    policy = out_of_sight(8, 7)
    policy.see_fleet(FleetView(8, 8, 7, 5, 2), 5.0)
    policy.observe(BOTH_WAIT, 5.0)
    assert policy.view(5.0).fleet_in_sight
    assert policy.pick(1, 1, 5.0) == INTERACTIVE


def test_a_worker_that_never_saw_others_can_not_lose_them():
    policy = Policy(PolicySettings(), slots=4, now=0.0)
    policy.lose_sight(1.0)
    assert policy.view(1.0).fleet_in_sight


def test_while_it_listens_for_others_it_starts_no_batch():
    policy = Policy(PolicySettings(reserve=0), slots=1, now=0.0)
    policy.listen(True, 0.0)
    assert policy.view(0.0).owed_ceiling > 0  # what it will guarantee is no less for that
    policy.observe(NO_INTERACTIVE, 5.0)
    assert policy.pick(0, 1, 5.0) is None
    assert policy.pick(1, 1, 5.0) == INTERACTIVE
    assert policy.credits(5.0).batch == 0
    policy.listen(False, 5.1)
    assert policy.pick(0, 1, 5.1) == BATCH


def test_old_words_tell_who_is_there_and_not_what_runs():
    policy = Policy(PolicySettings(reserve=2), slots=1, now=0.0)
    old = FleetView(8, 8, 7, 0, 2, fresh=False)
    policy.see_fleet(old, 0.0)
    for second in range(6):
        policy.see_fleet(old, float(second))
        policy.observe(BOTH_WAIT, float(second))
    assert policy.view(5.0).fleet_in_sight
    assert policy.view(5.0).debt_seconds == pytest.approx(0.8 * 5)  # half of the fleet's
    assert policy.pick(1, 1, 5.0) == BATCH


def may_run_batch(policy):
    limits = policy._limits
    return min(limits.batch_ceiling, policy.slots - limits.kept(policy.running_interactive)) > 0


@pytest.mark.parametrize(
    ("load", "mode"), [(NO_INTERACTIVE, Mode.OPEN), (Load(90, 90), Mode.PROTECTED)]
)
def test_a_capped_tenant_has_a_worker_that_runs_its_kind(load, mode):
    """The reserve takes no batch; nor, in a protected fleet, who isn't guaranteed any."""
    line = [one_of(20, rank, reserve=4, load=load) for rank in range(20)]
    for policy in line:
        policy.observe(load, 10.0)
    assert {policy.mode for policy in line} == {mode}
    rules = TenantRules(most=1)
    for tenant in (f"tenant {number}" for number in range(50)):
        for kind in KINDS:
            takes = [p for p in line if rules.part(tenant, p.stretch(kind)) != 0]
            assert len(takes) == 1 or kind == BATCH
            assert kind != BATCH or any(may_run_batch(p) for p in takes)
