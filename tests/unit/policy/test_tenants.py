"""Turns: what each tenant gets of its kind's slot-seconds, and what that costs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy.fleet import Segment, Stretch
from celery_fair.policy.tenant_rules import Tenant, TenantRules
from celery_fair.policy.tenants import FIRST_ESTIMATE_SECONDS, Turns

from .tenancy import Shop


def shop(slots: int = 1, **weights: float) -> Shop:
    return Shop(slots, Turns(TenantRules(weights)))


def test_ten_thousand_tasks_of_one_dont_stand_before_one_of_another():
    worker = shop()
    worker.add("big", *[1.0] * 10_000)
    for _ in range(5):
        worker.step()
    worker.add("small", 1.0)
    worker.step()
    worker.step()
    assert sorted(worker.order[5:]) == ["big", "small"]


def test_turns_are_counted_in_slot_seconds_not_in_tasks():
    worker = shop()
    worker.add("long", *[10.0] * 20)
    worker.add("short", *[1.0] * 200)
    while worker.now < 100:
        worker.step()
    assert worker.served("long") == pytest.approx(worker.served("short"), abs=20)
    assert worker.order.count("short") > 35


def test_a_weight_of_three_gets_three_times_as_much():
    worker = shop(4, gold=3.0)
    worker.add("gold", *[1.0] * 1000)
    worker.add("plain", *[1.0] * 1000)
    while worker.now < 100:
        worker.step()
    assert worker.served("gold") / worker.served("plain") == pytest.approx(3.0, rel=0.1)


def test_a_task_counts_while_it_runs():
    worker = shop(3)
    worker.add("slow", 600.0, 600.0)
    worker.dispatch()
    worker.add("quick", *[1.0] * 1000)
    while worker.now < 100:
        worker.step()
    worker.add("slow", 1.0)
    while worker.now < 590:
        worker.step()
    # Two slots have been slow's all the time.
    assert worker.order.count("slow") == 2
    assert worker.served("quick") == pytest.approx(590, abs=3)


def test_nobody_saves_up_while_idle():
    worker = shop()
    worker.add("idle", 1.0)
    worker.add("busy", *[1.0] * 1000)
    while worker.now < 500:
        worker.step()
    worker.add("idle", *[1.0] * 100)
    before = len(worker.order)
    while worker.now < 520:
        worker.step()
    assert worker.order[before:].count("busy") >= 9


def test_what_ran_while_nobody_else_waited_is_not_paid_for_later():
    worker = shop(8)
    worker.add("alone", *[600.0] * 8)
    worker.dispatch()
    for seconds in range(300):
        worker.turns.tick(float(seconds), nobody_waits=True)
    worker.turns.join("late")
    worker.turns.join("alone")
    assert worker.turns.time_of("alone") <= worker.turns.time_of("late") + 1


def test_who_comes_back_in_debt_waits_until_others_have_had_as_much():
    worker = shop()
    worker.add("other", *[1.0] * 100)
    worker.add("debtor", 30.0)
    while "debtor" not in worker.order:
        worker.step()
    worker.step()
    worker.add("debtor", 1.0)
    before = len(worker.order)
    while worker.order.count("debtor") < 2:
        worker.step()
    assert 25 <= len(worker.order) - before <= 32


def test_ever_new_tenants_dont_starve_an_old_one():
    worker = shop()
    worker.add("old", *[1.0] * 50)
    for number in range(100):
        if worker.turns.waiting < 2:
            worker.add(f"new-{number}", 1.0)
        worker.step()
    assert worker.order.count("old") >= 45


def test_first_estimates_are_taken_back():
    worker = shop(8)
    worker.add("a", *[0.01] * 400)
    worker.add("b", *[0.01] * 400)
    while worker.now < 0.2:
        worker.step()
    worker.add("c", 0.01)
    before = len(worker.order)
    while "c" not in worker.order:
        worker.step()
    assert len(worker.order) - before <= 10


def test_what_is_not_known_yet_is_no_head_start():
    """A worker has just begun, with short tasks of one tenant, when another's come."""
    worker = shop(4)
    worker.add("flood", *[0.01] * 400)
    worker.dispatch()
    worker.add("late", *[0.01] * 5)
    before = len(worker.order)
    while worker.order.count("late") < 5:
        worker.step()
    assert len(worker.order) - before <= 15


def test_an_end_told_twice_counts_once():
    turns = Turns()
    turns.join("a")
    turn = turns.start("a", 0.0)
    turns.end(turn, 5.0)
    turns.end(turn, 500.0)
    assert turns.time_of("a") == 5.0
    assert [account.running for account in turns.accounts] == [0]


def test_joining_twice_is_waiting_once():
    turns = Turns()
    turns.join(None)
    turns.join(None)
    assert turns.waiting == 1
    turns.leave(None)
    turns.leave(None)
    assert turns.waiting == 0
    with pytest.raises(LookupError):
        turns.next()


def test_a_hundred_thousand_tenants_are_not_remembered_for_ever():
    turns = Turns(remembered=100)
    for number in range(100_000):
        turns.join(f"tenant-{number}")
    assert turns.waiting == 100_000
    for number in range(100_000):
        tenant = turns.next()
        assert tenant == f"tenant-{number}"
        turns.leave(tenant)
        turns.end(turns.start(tenant, 0.0), 1.0)
    assert len(turns.accounts) == 100


def test_asking_for_the_time_of_a_stranger_leaves_no_trace():
    turns = Turns()
    assert turns.time_of("stranger") == turns.time
    assert len(turns.accounts) == 0


def alone(slots: int) -> Stretch:
    return Stretch(Segment(0, slots, slots))


def capped(slots: int, most: int, place: Stretch | None = None) -> Shop:
    worker = Shop(slots)
    worker.turns.go_by(TenantRules(most=most), place or alone(slots))
    return worker


def test_a_tenant_at_its_cap_lets_others_go_first():
    worker = capped(8, most=2)
    worker.add("big", *[1.0] * 20)
    worker.add("small", *[1.0] * 20)
    worker.add(None, *[1.0] * 20)
    worker.dispatch()
    assert Counter(worker.order) == {"big": 2, "small": 2, None: 4}  # no tenant has no cap


def test_a_cap_yields_while_nobody_else_waits_and_no_longer():
    worker = capped(4, most=1)
    worker.add("big", *[1.0] * 20)
    worker.dispatch()
    assert worker.order == ["big"] * 4
    worker.add("small", 1.0)
    worker.add("other", 1.0)
    for _ in range(4):
        worker.step()
    worker.dispatch()
    assert worker.order[4:] == ["small", "other", "big", "big"]


def test_a_cap_of_nothing_here_is_no_reason_to_wait_for_ever():
    """The worker that has all of its part may be at something that lasts for hours."""
    names = (f"t{number}" for number in range(200))
    place = Stretch(Segment(0, 2, 20))
    unlucky = next(t for t in names if TenantRules(most=1).part(t, place) == 0)
    worker = capped(2, 1, place)
    worker.turns.tick(0.0)
    worker.add(unlucky, *[1.0] * 20)
    worker.add(None, *[1.0] * 1000)
    while worker.now < 200:
        worker.step()
    assert 5 <= worker.order.count(unlucky) <= 7


def test_a_cap_set_live_holds_from_the_next_start_on():
    worker = capped(4, most=1)
    worker.turns.go_by(TenantRules(most=None), alone(4))
    worker.add("big", *[1.0] * 20)
    worker.add("small", *[1.0] * 20)
    worker.turns.go_by(TenantRules({"big": 9.0}, most=1), alone(4))
    worker.dispatch()
    assert worker.order[:2] == ["big", "small"]
    assert worker.turns.order_of("big")[0]
    worker.turns.go_by(TenantRules(), alone(4))
    assert not worker.turns.order_of("big")[0]


@given(
    slots=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    most=st.integers(1, 40),
    tenant=st.text(min_size=1),
    begin=st.integers(0, 100),
)
def test_the_parts_of_all_workers_make_up_the_cap(slots, most, tenant, begin):
    """In the slots that the kind may have: the reserve, at the head of the line, is not batch's."""
    total, first, parts = sum(slots), 0, []
    begin %= total
    for size in slots:
        part = TenantRules(most=most).part(
            tenant, Stretch(Segment(first, first + size, total), begin)
        )
        usable = max(0, first + size - max(first, begin))
        parts.append(usable if part is None else part)
        assert parts[-1] <= usable
        first += size
    assert sum(parts) == min(most, total - begin)


def test_of_workers_with_one_slot_not_the_same_one_has_every_tenant():
    rules, line = TenantRules(most=1), [Stretch(Segment(n, n + 1, 20)) for n in range(20)]
    has = [next(n for n in range(20) if rules.part(f"t{t}", line[n])) for t in range(200)]
    assert len(set(has)) == 20


def test_a_slot_more_of_reserve_leaves_the_others_where_they_are():
    rules, place = TenantRules(most=2), Segment(0, 4, 20)
    names = [f"t{number}" for number in range(200)]
    before, after = ([rules.part(t, Stretch(place, begin)) for t in names] for begin in (2, 3))
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    assert changed <= 60  # in three of twenty slots


def test_nobody_is_left_to_workers_that_may_be_gone():
    rules, place = TenantRules(most=1), Segment(0, 1, 20)
    names = [f"t{number}" for number in range(200)]
    assert {rules.part(name, Stretch(place)) for name in names} == {0, 1}
    assert {rules.part(name, Stretch(place, is_certain=False)) for name in names} == {1}


def test_a_name_wins_over_a_pattern_and_the_first_pattern_over_the_next():
    rules = TenantRules({"acme-*": 2.0, "*": 3.0, "acme-eu": 5.0})
    assert [rules.weight(name) for name in ("acme-eu", "acme-us", "zeta", None)] == [5, 2, 3, 1]


RUNS = st.floats(0.01, 20.0)


@settings(deadline=None)
@given(
    slots=st.integers(1, 6),
    runs=st.lists(st.tuples(st.floats(0.2, 5.0), st.lists(RUNS, min_size=1, max_size=5)),
                  min_size=2, max_size=5),
    seconds=st.floats(1.0, 100.0),
)  # fmt: skip
def test_two_who_always_wait_have_had_alike_by_weight_within_the_bound(slots, runs, seconds):
    weights = {f"t{n}": weight for n, (weight, _) in enumerate(runs)}
    worker = shop(slots, **weights)
    kinds = {f"t{n}": lengths for n, (_, lengths) in enumerate(runs)}
    longest = max(FIRST_ESTIMATE_SECONDS, *(max(runs) for runs in kinds.values()))
    given: dict[Tenant, int] = dict.fromkeys(kinds, 0)

    def another(tenant: Tenant) -> float:
        given[tenant] += 1
        choices = kinds[str(tenant)]
        return choices[given[tenant] % len(choices)]

    for tenant, choices in kinds.items():
        worker.add(tenant, choices[0])
    while worker.now < seconds:
        worker.step(another)
        worker.dispatch(another)
        assert len(worker.running) == slots  # no slot idles for a turn
        for one in kinds:
            for other in kinds:
                had = worker.served(one) / weights[one] - worker.served(other) / weights[other]
                by_weight = 1 / weights[one] + 1 / weights[other]
                assert had <= (slots + 1) * longest * by_weight + 1e-6


@settings(deadline=None)
@given(
    slots=st.integers(2, 6),
    most=st.integers(1, 3),
    loads=st.dictionaries(st.sampled_from("abcd"), st.lists(RUNS, min_size=1, max_size=10)),
)
def test_over_the_cap_is_only_who_started_while_nobody_else_waited(slots, most, loads):
    worker = capped(slots, most)
    for tenant, runs in loads.items():
        worker.add(tenant, *runs)
    while worker.turns.waiting:
        tenant = worker.turns.next()
        running = Counter(turn.account.tenant for _, _, turn, _ in worker.running)
        if running[tenant] >= most and most < slots:
            waiting = [other for other, held in worker.held.items() if held]
            assert all(running[other] >= most for other in waiting)
        worker.step()


@settings(deadline=None)
@given(
    slots=st.integers(1, 4),
    loads=st.dictionaries(st.sampled_from([None, "a", "b", "c", "d"]),
                          st.lists(RUNS, min_size=1, max_size=10), min_size=1),
)  # fmt: skip
def test_everybody_gets_all_that_they_brought(slots, loads):
    worker = shop(slots)
    for tenant, runs in loads.items():
        worker.add(tenant, *runs)
    worker.run()
    for tenant, runs in loads.items():
        assert worker.served(tenant) == pytest.approx(sum(runs))
        assert worker.order.count(tenant) == len(runs)


def test_who_may_not_start_yet_waits_and_is_not_next():
    turns = Turns()
    turns.bar("stuck")
    turns.join("both")
    turns.bar("both")
    assert turns.waiting == 2
    assert turns.next() == "both"
    turns.leave("both")
    assert turns.waiting == 2
    with pytest.raises(LookupError):
        turns.next()
    for tenant in ("both", "both", "stuck"):
        turns.unbar(tenant)
    assert turns.waiting == 0


def test_who_could_start_nothing_for_long_has_saved_up_no_more_than_a_run():
    """For one tenant there is no place for long; then it comes with what needs none."""
    worker = shop()
    worker.turns.bar("stuck")
    worker.add("busy", *[1.0] * 1000)
    while worker.now < 500:
        worker.step()
    worker.add("stuck", *[1.0] * 100)
    worker.add("new", *[1.0] * 100)
    before = len(worker.order)
    while worker.now < 530:
        worker.step()
    since = Counter(worker.order[before:])
    assert worker.order[before] == "stuck"
    assert all(9 <= number <= 12 for number in since.values())


def test_who_waits_in_vain_is_forgotten_by_nobody_and_remembered_by_its_time():
    turns = Turns(remembered=1)
    turns.bar("stuck")
    for number in range(10):
        turns.join(f"tenant-{number}")
        turns.leave(f"tenant-{number}")
        turns.end(turns.start(f"tenant-{number}", 0.0), 1.0)
    turns.end(turns.start("stuck", 0.0), 50.0)
    assert len(turns.accounts) == 2
    turns.join("stuck")
    turns.join("tenant-9")
    assert turns.next() == "tenant-9"


def test_who_is_back_in_line_is_not_forgotten_with_those_who_rest():
    turns = Turns(remembered=1)
    for tenant in ("back", "other", "third"):
        turns.join(tenant)
        turns.leave(tenant)
        turns.join("back")
    assert turns.next() == "back"
    assert {account.tenant for account in turns.accounts} == {"back", "third"}
