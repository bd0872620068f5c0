"""Whose turn it is among those who wait for places: of each set of resources on its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.policy.kinds import BATCH
from celery_fair.worker.clearing.turn import in_turn
from celery_fair.worker.lanes import Lane, make_held

NOW = 1000.0


class Room:
    """One lane, all of whose messages wait for places."""

    def __init__(self) -> None:
        self.lane = Lane(BATCH, now=0.0, scheduled_limit=1000)

    def wait(self, tenant: str, *uses: str, times: int = 1, asks_hook: bool = False) -> list[Any]:
        found = []
        for _ in range(times):
            held = make_held(object(), NOW, NOW, NOW, None, tenant)
            waiting = SimpleNamespace(
                held=held, key=held.sequence, uses=uses, asks_hook=asks_hook, tenant=tenant
            )
            self.lane.put_off(waiting)
            found.append(waiting)
        return found

    def ran(self, tenant: str, seconds: float, *uses: str) -> None:
        turns = self.lane.places.of(uses)
        turns.end(turns.start(tenant, 0.0), seconds)

    def next(self, number: int, *uses: str) -> list[str]:
        """Whose are the first to be asked for, of those that use that."""
        of_these = [one.tenant for one in in_turn(self.lane) if one.uses == uses]
        return of_these[:number]


@pytest.fixture
def room() -> Room:
    return Room()


def test_who_waits_for_one_resource_saves_up_nothing_for_another(room):
    """There is no gpu for an hour, and meanwhile others use what there is."""
    room.wait("stuck", "gpu")
    room.wait("busy", "openai")
    for _ in range(100):
        room.ran("busy", 1.0, "openai")
    room.wait("stuck", "openai", times=20)
    room.wait("busy", "openai", times=20)
    room.wait("new", "openai", times=20)
    first = room.next(9, "openai")
    assert {tenant: first.count(tenant) for tenant in first} == {"busy": 3, "stuck": 3, "new": 3}


def test_who_begins_to_wait_begins_where_those_are_who_wait_for_the_same(room):
    """And not an hour before them, where somebody waits for something else in vain."""
    room.wait("stuck", "gpu")
    for _ in range(100):
        room.ran("busy", 1.0, "openai")
    room.wait("busy", "openai", times=20)
    room.wait("other", "openai", times=20)
    assert 4 <= room.next(10, "openai").count("busy") <= 6


def test_who_has_had_much_of_one_is_not_behind_for_another(room):
    room.wait("busy", "gpu", times=20)
    for _ in range(100):
        room.ran("busy", 1.0, "openai")
    room.wait("stuck", "gpu", times=20)
    assert 4 <= room.next(10, "gpu").count("busy") <= 6


def test_what_uses_different_things_is_asked_for_side_by_side(room):
    room.wait("big", "openai", times=100)
    room.wait("small", "gpu", "openai")
    order = [one.tenant for one in in_turn(room.lane)]
    assert order.index("small") <= 1


def test_a_tenant_waits_for_places_until_its_last_such_task_is_gone(room):
    turns = room.lane.places.of(("openai",))
    one, other = room.wait("acme", "openai", times=2)
    (elsewhere,) = room.wait("acme", "gpu")
    room.lane.take_uncleared([one], NOW)
    assert (turns.waiting, room.lane.turns.waiting) == (1, 1)
    room.lane.clear(other, NOW)
    assert (turns.waiting, room.lane.turns.waiting) == (0, 1)
    room.lane.take_uncleared([elsewhere], NOW)
    assert room.lane.turns.waiting == 1  # what was cleared is held
    room.lane.take(NOW)
    assert room.lane.turns.waiting == 0


def test_what_the_hook_has_put_off_waits_for_no_place(room):
    """Else whoever comes meanwhile would begin where that one has stayed."""
    (delayed,) = room.wait("delayed", "openai", asks_hook=True)
    turns = room.lane.places.of(("openai",))
    assert turns.waiting == 0
    delayed.asks_hook = False
    room.lane.line_up(delayed)
    assert turns.waiting == 1
    room.lane.close()
    assert turns.waiting == 0
