"""Workers that ask, run, die and come back in any order, under a clock that jumps; what holds then.

The same calls go to all stores of a machine, at the same times, and must have the same answers; the
first is in memory, so that what is held can be counted there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from celery_fair.policy.kinds import BATCH, KINDS
from celery_fair.resources.memory_store import STARTING_SECONDS, STEP_SECONDS, MemoryStore
from celery_fair.resources.rules import Resource, of_kind
from celery_fair.resources.store import LEASE_SECONDS, Ended, ResourceStore, Turn, Want

RULES = {
    one.name: one
    for one in (
        Resource("gpu", max_running=2, interactive_reserve=0.3),
        Resource("openai", 4, 120.0, 6000.0, interactive_reserve=0.25),
        Resource("free"),
        Resource(of_kind(BATCH), max_running=3),
    )
}
USES = (("gpu",), ("openai",), ("gpu", "openai"), ("free",), ("free", "gpu"))
TOKENS = (0, 10, 300, 900)
WORKERS = ("a", "b", "c")

randoms = st.randoms(use_true_random=True)


@dataclass
class Known:
    """What a worker believes: the model knows nothing of it but what it says."""

    wants: dict[str, Want] = field(default_factory=dict)
    running: dict[str, Want] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)


class ResourceMachine(RuleBasedStateMachine):
    """Three workers of one app."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.numbers = itertools.count()
        self.stores = self.make_stores()
        self.ask("views")  # a store begins when it is first asked
        self.workers = {name: Known() for name in WORKERS}
        self.lawful = True
        """Whether nobody has missed a renewal yet: then no limit is exceeded."""

    def make_stores(self) -> list[ResourceStore]:
        return [self.memory()]

    def memory(self) -> MemoryStore:
        return MemoryStore(RULES, clock=lambda: self.now, starting_seconds=STARTING_SECONDS)

    @property
    def model(self) -> MemoryStore:
        model = self.stores[0]
        assert isinstance(model, MemoryStore)
        return model

    def ask(self, method: str, *args: Any) -> Any:
        answers = [getattr(store, method)(*args) for store in self.stores]
        for answer in answers[1:]:
            assert same(answer, answers[0]), f"{method}{args}\n{answer}\n{answers[0]}"
        return answers[0]

    # -- a worker --------------------------------------------------------------------------------

    def turn(self, name: str, *, heard: bool = True) -> Turn:
        worker = self.workers[name]
        wants, running = list(worker.wants.values()), list(worker.running.values())
        answer: Turn = self.ask("turn", name, wants, running, list(worker.ended))
        assert set(answer.granted) | answer.waits.keys() == worker.wants.keys()
        assert not set(answer.granted) & answer.waits.keys()
        if heard:
            worker.ended.clear()
            for lease in answer.granted:
                worker.running[lease] = worker.wants.pop(lease)
        return answer

    @rule(name=st.sampled_from(WORKERS), draw=randoms)
    def want(self, name: str, draw: Random) -> None:
        worker = self.workers[name]
        for _ in range(draw.randint(1, 3)):
            kind = draw.choice(KINDS)
            uses = draw.choice(USES)
            if kind == BATCH:
                uses = tuple(sorted((*uses, of_kind(BATCH))))
            lease = f"{name}{next(self.numbers)}"
            worker.wants[lease] = Want(lease, kind, uses, draw.choice(TOKENS))
        self.turn(name)

    @rule(name=st.sampled_from(WORKERS), draw=randoms)
    def end(self, name: str, draw: Random) -> None:
        worker = self.workers[name]
        for lease in draw.sample(sorted(worker.running), min(len(worker.running), 2)):
            del worker.running[lease]
            worker.ended.append(Ended(lease, draw.random() < 0.8))
        self.turn(name)

    @rule(name=st.sampled_from(WORKERS))
    def look(self, name: str) -> None:
        first = self.turn(name)
        assert not self.turn(name).lost, "what was held a moment ago is held"
        assert first is not None

    @rule(name=st.sampled_from(WORKERS))
    def lose_an_answer(self, name: str) -> None:
        """A call that was made, and whose answer never came, is made again."""
        before = self.turn(name, heard=False)
        again = self.turn(name)
        assert set(before.granted) <= set(again.granted), "asked for twice is granted once"

    @rule(name=st.sampled_from(WORKERS), draw=randoms)
    def give_up(self, name: str, draw: Random) -> None:
        worker = self.workers[name]
        self.turn(name, heard=False)
        for lease in draw.sample(sorted(worker.wants), len(worker.wants) // 2):
            del worker.wants[lease]
        self.turn(name)

    @rule(name=st.sampled_from(WORKERS))
    def move(self, name: str) -> None:
        """A child that outlives its worker holds on to what it runs, under a name of its own."""
        worker = self.workers[name]
        self.ask("leave", name)
        self.ask("turn", name + "'s child", [], list(worker.running.values()), [])

    @rule(name=st.sampled_from(WORKERS))
    def die(self, name: str) -> None:
        """With all its tasks: nobody is told."""
        self.workers[name] = Known()

    # -- time and the resources ------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for name in WORKERS:
            self.turn(name)

    @rule(seconds=st.sampled_from([-7200.0, -5.0, 3.0, 3600.0, 1e6]))
    def jump(self, seconds: float) -> None:
        """All who live renew soon after: no jump may cost them a place."""
        self.now += seconds
        for name in WORKERS:
            assert not self.turn(name).lost

    @rule(name=st.sampled_from(WORKERS))
    def sleep(self, name: str) -> None:
        """One worker stands still for longer than its leases last, and the others go on."""
        others = [one for one in WORKERS if one != name]
        for _ in range(round(LEASE_SECONDS / STEP_SECONDS) + 1):
            self.now += STEP_SECONDS
            for other in others:
                self.turn(other)
        held = list(self.workers[name].running)
        self.lawful = self.lawful and not held
        assert set(self.turn(name).lost) == set(held)

    @rule(tokens=st.sampled_from([-300, 50, 5000]))
    def charge(self, tokens: int) -> None:
        self.ask("charge", "openai", tokens)

    @rule(name=st.sampled_from(["openai", "gpu", "free"]), said=st.sampled_from([None, 0.5, 7.0]))
    def refuse(self, name: str, said: float | None) -> None:
        self.ask("slow_down", name, said)

    @rule()
    def view(self) -> None:
        views = self.ask("views")
        assert [view.name for view in views] == sorted(RULES)
        assert {holder.lease for holder in self.ask("holders")} == self.model.leases.keys()

    # -- what holds ------------------------------------------------------------------------------

    @invariant()
    def what_runs_is_held(self) -> None:
        for worker in self.workers.values():
            assert worker.running.keys() <= self.model.leases.keys()

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        if self.lawful:
            for name, most in limits():
                assert held(self.model)[name] <= most

    @invariant()
    def the_counts_are_those_of_the_leases(self) -> None:
        counts = held(self.model)
        waiting = Counter(name for one in self.model.waiting.values() for name in one.want.uses)
        for name, shared in self.model._shared.items():
            assert shared.total == counts[name]
            assert sum(shared.waiting.values()) == waiting[name]

    def teardown(self) -> None:
        """Whoever waits comes to its turn, once all others have gone."""
        for _ in range(200):
            if not any(worker.wants or worker.running for worker in self.workers.values()):
                break
            self.now += 2.0
            for worker in self.workers.values():
                worker.ended += [Ended(lease, True) for lease in worker.running]
                worker.running.clear()
            for name in WORKERS:
                self.turn(name)
        assert not any(worker.wants for worker in self.workers.values())


def held(model: MemoryStore) -> Counter[str]:
    """How many places of each resource are taken."""
    return Counter(name for lease in model.leases.values() for name in lease.want.uses)


def limits() -> list[tuple[str, int]]:
    return [(one.name, one.max_running) for one in RULES.values() if one.max_running is not None]


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same, but for the last digits of a number."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-6 * max(1.0, abs(one))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, key), getattr(other, key)) for key in one.__dataclass_fields__)
    return bool(one == other)
