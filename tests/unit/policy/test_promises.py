"""The promises P1 to P4 over random loads (P5 needs a broker: tests/unit/sim)."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy import (
    BATCH,
    INTERACTIVE,
    FleetView,
    Load,
    Mode,
    Policy,
    PolicySettings,
)
from tests.unit.policy.saturated import Saturated

SHARES = st.sampled_from([0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5])
SLOTS = st.integers(1, 12)
TOLERANCE = 1e-6


def seconds(low, high):
    return st.floats(low, high, allow_nan=False)


@st.composite
def loads(draw):
    backlog = st.none() | st.integers(0, 60)
    return Load(
        draw(backlog),
        draw(backlog),
        interactive_oldest_wait_seconds=draw(st.sampled_from([0.0, 0.0, 0.2, 2.0])),
        interactive_oldest_run_seconds=draw(st.sampled_from([0.0, 0.1, 30.0])),
        batch_oldest_run_seconds=draw(st.sampled_from([0.0, 1.0, 600.0])),
        interactive_lane_empty=draw(st.booleans()),
        batch_lane_empty=draw(st.booleans()),
    )


@st.composite
def steps(draw):
    """A step of a worker's life: an action and the time that passes before it."""
    action = draw(st.sampled_from(["pick", "pick", "pick", "finish", "finish", "tick", "resize"]))
    argument = {
        "pick": st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()),
        "finish": st.tuples(st.sampled_from([INTERACTIVE, BATCH]), seconds(0.001, 20)),
        "tick": loads(),
        "resize": SLOTS,
    }[action]
    return action, draw(argument), draw(seconds(0, 3))


@st.composite
def policies(draw):
    slots = draw(SLOTS)
    config = PolicySettings(
        batch_share=draw(SHARES),
        reserve=draw(st.just("auto") | st.integers(0, 6)),
        interactive_max_slots=draw(st.none() | st.integers(1, 12)),
        share_unit=draw(st.sampled_from(["seconds", "tasks"])),
    )
    return Policy(config, slots=slots, now=0.0), config


def life(policy, script):
    """Play the steps; yield what was picked, with the view before it, and then start it."""
    now = 0.0
    for action, argument, pause in script:
        now += pause
        if action == "tick":
            policy.observe(argument, now)
        elif action == "resize":
            policy.resize(argument, now)
        elif action == "finish":
            kind, run_seconds = argument
            running = policy.running_batch if kind == BATCH else policy.running_interactive
            if running:
                policy.finish(kind, now, run_seconds)
        else:
            before = policy.view(now)
            kind = policy.pick(*argument[:2], now, argument[2])
            yield before, argument, kind
            if kind:
                policy.start(kind, now, waited_seconds=0.1)


@settings(max_examples=600)
@given(policies(), st.lists(steps(), min_size=5, max_size=50))
def test_p1_batch_passes_a_held_interactive_task_only_if_owed(made, script):
    policy, config = made
    most = config.interactive_max_slots or math.inf
    for before, (interactive_held, _, _), kind in life(policy, script):
        if kind == BATCH and interactive_held and before.running_interactive < most:
            assert before.batch_owed
            assert before.debt_seconds > 0


@settings(max_examples=600)
@given(policies(), st.lists(steps(), min_size=5, max_size=50))
def test_p3_no_batch_beyond_the_reserve_or_the_share(made, script):
    policy, config = made
    for before, _, kind in life(policy, script):
        if kind is None:
            continue
        running = before.running_batch + before.running_interactive
        assert running < before.slots
        if kind == INTERACTIVE:
            continue
        guaranteed = math.ceil(before.slots * config.batch_share - 1e-9)
        batch, free = before.running_batch + 1, before.slots - running - 1
        owed = before.batch_owed and batch <= guaranteed
        most = config.interactive_max_slots or before.slots
        reserve = min(before.reserve, max(0, most - before.running_interactive))
        if before.mode is Mode.PROTECTED:
            assert owed or (batch <= guaranteed and free >= reserve)
        else:
            assert owed or free >= reserve
        assert 0 <= before.reserve <= before.slots - guaranteed


@settings(max_examples=400)
@given(policies(), st.lists(steps(), max_size=50))
def test_p4_no_slot_idles_without_a_reason(made, script):
    policy, config = made
    for before, (interactive_held, batch_held, empty), kind in life(policy, script):
        free = before.slots - before.running_interactive - before.running_batch
        if kind is not None or free <= 0:
            continue
        most = config.interactive_max_slots or math.inf
        assert not interactive_held or before.running_interactive >= most
        if batch_held and empty and config.reserve != "auto":
            assert before.running_batch >= before.batch_ceiling or free <= before.reserve


@settings(max_examples=300)
@given(SLOTS, SHARES, st.integers(0, 12))
def test_p4_a_kind_alone_gets_all_it_may_use(slots, share, reserve):
    config = PolicySettings(batch_share=share, reserve=reserve)
    for kind in (INTERACTIVE, BATCH):
        policy = Policy(config, slots=slots, now=0.0)
        policy.observe(Load(500, 0), 0.0)
        policy.observe(Load(0, 9, interactive_lane_empty=True), 0.25)
        held = (9, 0) if kind == INTERACTIVE else (0, 9)
        while (picked := policy.pick(*held, 0.25)) is not None:
            assert picked == kind
            policy.start(picked, 0.25)
        guaranteed = math.ceil(slots * share - 1e-9)
        kept = 0 if kind == INTERACTIVE else min(reserve, slots - guaranteed)
        assert policy.running == slots - kept


@settings(max_examples=150)
@given(
    slots=st.integers(1, 10),
    share=SHARES,
    interactive=seconds(0.02, 3),
    batch=seconds(1, 8),
    spread=seconds(0, 0.5),
    seed=st.integers(0, 10**6),
)
def test_p2_waiting_batch_gets_its_share_and_waiting_interactive_the_rest(
    slots, share, interactive, batch, spread, seed
):
    worker = Saturated(
        Policy(PolicySettings(batch_share=share, reserve=1), slots=slots, now=0.0),
        (interactive * (1 - spread), interactive * (1 + spread)),
        (batch * (1 - spread), batch * (1 + spread)),
        seed,
    )
    until = 12 * batch / share / slots + 10
    worker.run(until)
    longest = max(worker.longest_run, 1.0)  # a run time not yet known counts as 1 s
    fair = share * slots * until
    late = share * slots * worker.longest_without_free_slot
    assert worker.batch_slot_seconds >= fair - 2 * longest - late - TOLERANCE
    # And no more: each guaranteed slot may be in the middle of a task.
    guaranteed = math.ceil(slots * share - 1e-9)
    assert worker.batch_slot_seconds <= fair + (guaranteed + 1) * longest + TOLERANCE


@settings(max_examples=300)
@given(policies(), st.lists(steps(), max_size=40))
def test_credits_are_never_negative_and_batch_holds_only_what_may_start(made, script):
    policy, _ = made
    for before, _, _ in life(policy, script):
        now = before.mode_since + 100.0
        credits = policy.credits(now)
        assert credits.interactive >= 0
        assert credits.batch >= 0
        free = before.slots - before.running_batch - before.running_interactive
        guaranteed = before.running_batch <= before.owed_ceiling
        if free <= 0 and not guaranteed and before.batch_mean_seconds > 0.1:
            assert credits.batch <= before.running_batch * 0.05 / before.batch_mean_seconds


@settings(max_examples=300)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=10),
    SHARES,
    st.just("auto") | st.integers(0, 5),
)
def test_the_parts_of_a_fleet_add_up_to_one_worker_of_the_sum(sizes, share, reserve):
    total = sum(sizes)
    config = PolicySettings(batch_share=share, reserve=reserve)
    whole = Policy(config, slots=total, now=0.0)
    parts, before = [], 0
    for size in sizes:
        part = Policy(config, slots=size, now=0.0)
        part.see_fleet(FleetView(len(sizes), total, before, 0, 0), 0.0)
        parts.append(part)
        before += size
    guaranteed = math.ceil(total * share - 1e-9)
    assert whole.reserve == sum(part.reserve for part in parts)
    for policy in [whole, *parts]:
        policy.observe(Load(500, 5), 0.0)
    ceilings = [min(part.view(0.0).batch_ceiling, guaranteed) for part in parts]
    assert sum(ceilings) == min(whole.view(0.0).batch_ceiling, guaranteed)
