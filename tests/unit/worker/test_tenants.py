"""What a lane holds for several tenants."""

from __future__ import annotations

import gc

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import SecretStr

from celery_fair.ambient import hidden
from celery_fair.policy.fleet import Segment, Stretch
from celery_fair.policy.kinds import BATCH
from celery_fair.policy.load import Load
from celery_fair.settings import FairSettings
from celery_fair.worker.lanes import Lane
from celery_fair.worker.tenants import HeldByTenant, Tenants, rules_of

NOW = 1000.0


def lane() -> Lane:
    return Lane(BATCH, now=0.0, scheduled_limit=1000)


def hold(lane: Lane, tenant: str | None, *names: str, published: float = 0.0) -> None:
    for name in names:
        lane.hold(name, published, published, NOW, None, tenant)


def run_all(lane: Lane, seconds: float = 1.0) -> list[str]:
    """Take and run one after the other."""
    ran = []
    while len(lane):
        ran.append(run_one(lane, seconds))
    return ran


def run_one(lane: Lane, seconds: float = 1.0) -> str:
    held = lane.take(NOW)
    lane.turns.end(lane.turns.start(held.tenant, NOW), seconds)
    return str(held.request)


def test_without_tenants_a_lane_holds_a_plain_heap():
    held = lane()
    hold(held, None, "a", "b")
    assert isinstance(held.held, list)
    assert not held.takes_turns
    assert not held.turns.accounts


def test_tenants_take_turns_each_in_the_order_of_first_publish():
    held = lane()
    hold(held, "acme", "a2", published=2.0)
    hold(held, "acme", "a1", published=1.0)
    hold(held, "acme", "a3", published=3.0)
    hold(held, "zeta", "z9", published=9.0)
    hold(held, "zeta", "z8", published=8.0)
    assert run_all(held) == ["a1", "z8", "a2", "z9", "a3"]


def test_what_names_no_tenant_has_turns_like_one():
    held = lane()
    hold(held, None, "n1", "n2")
    hold(held, "acme", "a1", "a2")
    assert run_all(held) == ["n1", "a1", "n2", "a2"]


def test_a_retry_goes_before_all_that_its_tenant_has_and_not_before_others():
    held = lane()
    hold(held, "acme", "a1", "a2", published=5.0)
    hold(held, "zeta", "z1", published=6.0)
    assert run_all(held)[:2] == ["a1", "z1"]
    hold(held, "zeta", "z2", published=6.0)
    hold(held, "acme", "a3", published=7.0)
    hold(held, "acme", "a-retried", published=1.0)
    assert run_all(held) == ["z2", "a-retried", "a3"]


def test_what_is_taken_and_not_started_costs_no_turn():
    held = lane()
    hold(held, "acme", "a1", "a2", "a3")
    hold(held, "zeta", "z1")
    assert held.take(NOW).request == "a1"  # revoked, say
    assert run_all(held) == ["a2", "z1", "a3"]


def test_a_pause_of_a_queue_takes_a_tenant_out_of_line_and_back():
    held = lane()
    hold(held, "acme", "a1")
    hold(held, "zeta", "z1")
    held.set_aside(lambda one: one.tenant == "acme")
    assert [one.request for one in held] == ["z1"]
    assert held.turns.waiting == 1
    held.set_aside(lambda one: False)
    assert sorted(one.request for one in held) == ["a1", "z1"]
    assert held.turns.waiting == 2


def test_turns_outlive_a_connection():
    tenants, first, second = Tenants(), lane(), lane()
    tenants.connect({BATCH: first})
    hold(first, "acme", "a1", "a2")
    hold(first, "zeta", "z1")
    tenants.turns[BATCH].start(first.take(NOW).tenant, NOW)
    first.close()
    assert tenants.turns[BATCH].waiting == 0
    tenants.connect({BATCH: second})
    hold(second, "acme", "a2")
    hold(second, "zeta", "z1")
    assert run_all(second) == ["z1", "a2"]


def test_what_comes_late_to_a_closed_lane_takes_no_turn_in_the_next():
    """A timer with a thread of its own may bring it while the connection is lost."""
    tenants, first, second = Tenants(), lane(), lane()
    tenants.connect({BATCH: first})
    hold(first, "acme", "a1")
    first.close()
    hold(first, "late", "l1")
    tenants.connect({BATCH: second})
    hold(second, "zeta", "z1")
    assert run_all(second) == ["z1"]
    assert tenants.turns[BATCH].waiting == 0


class Holding(RuleBasedStateMachine):
    """Whatever happens to a lane, it holds what a list would, and turns know who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = lane()
        self.model: set[int] = set()
        self.number = 0

    @rule(tenant=st.sampled_from([None, "a", "b", "c"]), published=st.floats(0, 9))
    def hold(self, tenant, published):
        self.number += 1
        self.model.add(self.number)
        self.lane.hold(self.number, published, published, NOW + self.number, None, tenant)

    @precondition(lambda self: len(self.lane))
    @rule()
    def take(self):
        before = list(self.lane)
        held = self.lane.take(NOW)
        self.model.remove(held.request)
        assert held == min(one for one in before if one.tenant == held.tenant)

    @rule(bound=st.integers(0, 30))
    def take_old(self, bound):
        found = self.lane.take_held_before(NOW + bound, lambda held: True)
        self.model -= {held.request for held in found}
        self.lane.hold_again(found[:1], [])
        self.model |= {held.request for held in found[:1]}

    @rule(tenant=st.sampled_from([None, "a", "b", "x"]))
    def set_aside(self, tenant):
        self.lane.set_aside(lambda held: held.tenant == tenant)

    @rule()
    def postpone(self):
        self.lane.postpone(lambda held: 1.0)

    @rule()
    def take_all(self):
        assert {held.request for held in self.lane.take_all()} == self.model
        self.model = set()

    @invariant()
    def holds_what_it_was_given(self):
        held = [*self.lane, *self.lane.aside]
        assert sorted(one.request for one in held) == sorted(self.model)
        assert len(self.lane) == len(list(self.lane))
        if isinstance(self.lane.held, HeldByTenant):
            assert self.lane.turns.waiting == len({one.tenant for one in self.lane})


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_hundred_thousand_tenants_leave_little_behind():
    held = lane()
    for number in range(100_000):
        hold(held, f"tenant-{number}", "one")
        one = held.take(NOW)
        held.turns.end(held.turns.start(one.tenant, NOW), 0.01)
    gc.collect()
    assert len(held.turns.accounts) <= 4096


def test_weights_are_found_by_the_name_that_travels():
    key = "0123456789abcdef"
    weights = {"acme": 3.0, "*": 2.0}
    plain = rules_of(FairSettings(tenant_weights=weights))
    hashed = rules_of(FairSettings(tenant_weights=weights, tenant_hash_key=SecretStr(key)))
    assert plain.weight("acme") == 3.0
    assert hashed.weight(hidden("acme", SecretStr(key))) == 3.0
    assert hashed.weight(hidden("zeta", SecretStr(key))) == 2.0


def test_settings_hold_from_the_next_tick_on():
    tenants, held = Tenants(), lane()
    tenants.connect({BATCH: held})
    hold(held, "acme", "a1")
    tenants.go_by(FairSettings(tenant_weights={"acme": 4.0}, tenant_max_running=1))
    tenants.tick(Load(0, 1), lambda kind: Stretch(Segment(0, 4, 4)), NOW)
    (account,) = tenants.turns[BATCH].accounts
    assert account.weight == 4.0
    assert account.part == 1


def test_what_is_told_of_tenants_is_bounded_in_number_and_length():
    held = lane()
    assert held.tenants(NOW) is None
    hold(held, None, "n1")
    for number in range(50):
        hold(held, f"tenant-{number}" + "x" * 200, "one")
    hold(held, "big", "b1", "b2", "b3")
    told = held.tenants(NOW + 3)
    assert told["waiting"] == 52
    assert told["longest_wait_seconds"] == 3.0
    assert len(told["top"]) == 3
    assert told["top"][0] == {"tenant": "big", "held": 3}
    assert all(len(one["tenant"] or "") <= 64 for one in told["top"])


def test_how_many_come_before_counts_turns():
    held = lane()
    hold(held, "acme", *(f"a{n}" for n in range(9)))
    hold(held, "zeta", "z1", "z2")
    every = {one.request: one for one in held}
    assert held.before(every["z2"]) == 2  # z1, and a0 meanwhile
    assert held.before(every["a8"]) == 10


def test_whose_turn_it_isnt_stands_behind_by_what_it_has_had():
    held = lane()
    hold(held, "acme", "a1", "a2")
    hold(held, "zeta", "z1")
    assert run_one(held) == "a1"
    assert held.turns.standing("zeta") is None
    standing = held.turns.standing("acme")
    assert (standing.others, standing.ahead_seconds) == (1, 1.0)
