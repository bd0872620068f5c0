"""What needs a place waits for it in no slot, and whatever ends it gives the place back."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.errors import StateAway
from celery_fair.headers import FairHeader
from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import LEASE_SECONDS, Want
from celery_fair.resources.walk import MOST_GRANTED
from celery_fair.worker import internals
from celery_fair.worker.clearing import clearing as module
from celery_fair.worker.clearing.clearing import FEW, LONGEST_BLIND, Clearing
from celery_fair.worker.clearing.keeper import Keeper
from celery_fair.worker.clearing.outage import Line, Outage
from celery_fair.worker.clearing.places import IDLE_SECONDS, Places
from celery_fair.worker.clearing.pulse import Pulse
from celery_fair.worker.clearing.waiting import LEASE, waiting_of
from celery_fair.worker.deadlines import Deadline
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import ROOM_LIMIT, Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.windows import Window
from tests.unit.worker.received import Received, received

RULES = {"openai": Resource("openai", 2), "gpu": Resource("gpu", 1)}
ALONE = Line(0, 4, 4)


class Request(Received):
    """Each is itself alone, as Celery's are."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class FlakyStore(MemoryStore):
    """Can be away; and it remembers what it was told."""

    away = False
    turns = 0

    def turn(self, *args: Any) -> Any:
        self.turns += 1
        if self.away:
            raise StateAway
        return super().turn(*args)


class Site:
    """One worker's dispatcher and what clears for it, with no thread and no broker."""

    def __init__(self, store: FlakyStore, name: str = "w1", slots: int = 4) -> None:
        now = monotonic()
        policy = Policy(PolicySettings(reserve=0), slots=slots, now=now)
        pool = SimpleNamespace(num_processes=slots, _state=1, RUN=1)
        self.ran: list[Any] = []
        self.dispatcher = Dispatcher(
            policy, Pool(pool), self.ran.append, lambda seconds, call: None, lambda queue: BATCH
        )
        slots_taken = self.dispatcher.slots.taken
        self.line = ALONE
        self.keeper = Keeper(
            name,
            lambda: store,
            Places(slots_taken.__contains__),
            lambda held: Outage(RULES, lambda: self.line, held, monotonic),
            lambda: None,
            Pulse(),
            SimpleNamespace(open=lambda: None, close=lambda: None),
        )
        self.keeper._begin = lambda: None
        self.clearing = self.dispatcher.clearing = Clearing(
            self.dispatcher, uses=self._uses, keeper=self.keeper
        )
        self.clearing.looking = math.inf  # at each message: how long it takes is not to matter here
        self.connect()

    def _uses(self, kind: str, name: str, header: Any) -> tuple[Sequence[str], int] | None:
        uses = name.partition(":")[2]
        return ((uses,), 0) if uses else None

    def connect(self) -> None:
        lanes = {kind: Lane(kind, monotonic(), 100) for kind in KINDS}
        windows = {kind: Window(lane, None) for kind, lane in lanes.items()}
        self.dispatcher.connect(lanes, windows)

    def give(
        self,
        name: str = "a:openai",
        kind: str = INTERACTIVE,
        waits: float = 0.0,
        tenant: str | None = None,
    ) -> Any:
        published = time.time() - 30.0 + waits
        lane = self.dispatcher.lanes[kind]
        said = FairHeader(kind, published, published)._replace(tenant=tenant).as_line()
        request = Request(**vars(received(lane, {"fair": said})))
        request.task = SimpleNamespace(name=name, acks_late=False)
        request.delivery_info = {"routing_key": "celery"}
        self.dispatcher.on_task_request(request)
        return request

    def turn(self) -> None:
        """What the keeper's thread would do now, and the loop after it."""
        self.keeper.turn()
        self.dispatcher.pump()

    def end(self, request: Any) -> None:
        request.fair_slot.release()
        self.dispatcher.pump()

    @property
    def waiting(self) -> int:
        return sum(len(lane.uncleared) for lane in self.dispatcher.lanes.values())


@pytest.fixture(autouse=True)
def books(monkeypatch) -> None:
    monkeypatch.setattr(internals, "is_running", lambda pool: True)
    monkeypatch.setattr(internals, "forget_request", lambda request: None)


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore(RULES)


@pytest.fixture
def site(store) -> Site:
    return Site(store)


def running(store: MemoryStore) -> int:
    return len(store.leases)


# who waits, and where


def test_what_uses_nothing_takes_its_slot_at_once_and_nobody_is_asked(site, store):
    request = site.give("a")
    assert site.ran == [request]
    assert (site.waiting, store.turns) == (0, 0)
    assert waiting_of(request) is None


def test_what_uses_something_waits_without_a_slot_until_it_is_granted(site):
    request = site.give()
    assert site.ran == []
    assert site.waiting == 1
    site.turn()
    assert site.ran == [request]
    assert site.waiting == 0
    assert request.delivery_info[LEASE].startswith("w1/")


def test_those_beyond_the_limit_wait_and_stand_in_nobodys_way(site):
    first = [site.give() for _ in range(4)]
    site.turn()
    other, free = site.give("b:gpu"), site.give("c")
    site.turn()
    assert site.ran == [*first[:2], free, other]
    site.end(first[0])
    site.turn()
    assert site.ran[-1] is first[2]


def test_the_first_published_is_the_first_to_be_granted(site):
    late, early = site.give(waits=5.0), site.give()
    site.give(waits=1.0)
    site.turn()
    assert site.ran[0] is early
    assert late not in site.ran


def test_a_full_room_takes_no_more_and_is_no_wait_for_a_slot(site):
    for _ in range(ROOM_LIMIT):
        site.give("b:gpu")
    lane = site.dispatcher.lanes[INTERACTIVE]
    assert lane.room() <= 0 < lane.credit
    assert lane.waiting == 0
    site.turn()
    site.give("b:gpu")
    assert lane.is_blocked
    lane.asked_at = monotonic() + 60.0  # the broker is never seen to have nothing
    batch = site.give("a", kind=BATCH)
    assert site.ran[-1] is batch


def test_a_hundred_that_wait_for_one_resource_stand_in_nobodys_way(site):
    for _ in range(100):
        site.give("b:openai")
        site.turn()
    lane = site.dispatcher.lanes[INTERACTIVE]
    assert lane.room() > 0
    plain, other = site.give("a"), site.give("a:gpu")
    site.turn()
    assert site.ran[-2:] == [plain, other]


def test_where_many_wait_not_every_message_looks_at_all_of_them(site):
    first = [site.give() for _ in range(FEW + 1)]
    site.turn()
    site.clearing._look_again_at = monotonic() + 60.0
    asked = len(site.keeper.wants)
    site.give("a:gpu")
    assert len(site.keeper.wants) == asked
    site.end(first[0])  # there is a place to give to somebody
    assert len(site.keeper.wants) > asked


def test_where_many_wait_a_process_that_stood_still_is_not_blind_for_long(site):
    site.clearing.looking = 1e-12  # as if each look took ages
    for _ in range(FEW + 1):
        site.give()
    assert site.clearing._look_again_at <= monotonic() + LONGEST_BLIND


def test_no_more_is_asked_for_at_once_than_a_turn_grants(monkeypatch):
    """And the rest with the next turns: 100 free places are taken in a few."""
    monkeypatch.setitem(RULES, "openai", Resource("openai", 100))
    site = Site(FlakyStore(RULES), slots=100)
    asked = []
    for _ in range(100):
        site.give()
        asked.append(len(site.keeper.wants))
    turns = 0
    while site.waiting:
        turns += 1
        site.turn()
        asked.append(len(site.keeper.wants))
    assert len(site.ran) == 100
    assert max(asked) == MOST_GRANTED == 32
    assert turns <= 6


def test_no_more_is_asked_for_than_could_have_a_slot(store):
    site = Site(store, slots=1)
    for _ in range(3):
        site.give()
    assert len(site.keeper.wants) == 1
    site.turn()
    assert (len(site.ran), len(site.keeper.wants)) == (1, 0)
    site.end(site.ran[0])
    assert len(site.keeper.wants) == 1


# however it ends


def test_an_ended_task_gives_its_place_back_once(site, store):
    request = site.give()
    site.turn()
    assert running(store) == 1
    site.end(request)
    site.end(request)
    site.turn()
    assert running(store) == 0
    assert len(site.keeper.places) == 0


def test_a_lost_connection_gives_back_what_was_held_and_keeps_what_runs(site, store):
    site.give()
    site.turn()
    site.dispatcher.policy.resize(1, monotonic())  # no slot for the next
    site.give()
    site.keeper.wants = [next(iter(site.dispatcher.lanes[INTERACTIVE].uncleared.values())).want]
    site.turn()
    assert running(store) == 2
    site.dispatcher.disconnect()
    site.connect()
    site.turn()
    assert running(store) == 1
    assert len(site.ran) == 1


def test_a_place_that_finds_no_slot_is_given_back_and_its_task_waits_again(site, store):
    site.dispatcher.policy.resize(0, monotonic())
    request = site.give()
    waiting = waiting_of(request)
    site.keeper.wants = [waiting.want]
    site.keeper.turn()
    site.dispatcher.pump()
    assert running(store) == 1
    assert site.waiting == 0
    before = waiting.want.lease
    site.clearing.audit(monotonic() + IDLE_SECONDS)
    assert site.waiting == 1
    assert waiting.want.lease != before
    site.keeper.turn()
    assert running(store) == 0
    assert site.clearing.idle == 1


def test_one_that_vanished_from_its_lane_gives_its_place_back(site, store):
    site.dispatcher.policy.resize(0, monotonic())
    request = site.give()
    site.keeper.wants = [waiting_of(request).want]
    site.turn()
    assert running(store) == 1
    site.dispatcher.lanes[INTERACTIVE].take_all()
    site.clearing.audit(monotonic())
    site.keeper.turn()
    assert running(store) == 0


def test_a_grant_for_one_that_is_gone_meanwhile_is_given_back(site, store):
    site.give()
    site.keeper.turn()
    site.dispatcher.lanes[INTERACTIVE].take_all()
    site.dispatcher.pump()
    site.clearing.audit(monotonic())
    site.keeper.turn()
    assert running(store) == 0
    assert site.ran == []


def test_after_too_long_without_a_renewal_nothing_is_begun(site, monkeypatch):
    """The worker was stopped, and its place may be another's by now."""
    site.dispatcher.policy.resize(0, monotonic())
    request = site.give()
    site.keeper.wants = [waiting_of(request).want]
    site.turn()
    site.keeper.renewed_at -= LEASE_SECONDS
    site.dispatcher.policy.resize(1, monotonic())
    site.dispatcher.pump()
    assert site.ran == []
    assert site.waiting == 1
    site.turn()
    site.turn()
    assert site.ran == [request]
    assert site.clearing.stale == 1


def test_a_paused_kind_asks_for_nothing(site):
    site.dispatcher.pausing.change(site.dispatcher.lanes, frozenset({BATCH}), frozenset())
    site.give(kind=BATCH)
    assert site.keeper.wants == ()


# while the store is away


def test_in_an_outage_it_goes_on_within_its_part(site, store):
    site.line = Line(0, 4, 8)  # one of two workers: one place of two, none or one of one
    site.give()
    site.turn()
    store.away = True
    for _ in range(3):
        site.give()
    site.turn()
    assert len(site.ran) == 1
    assert site.keeper.is_away
    site.end(site.ran[0])
    site.turn()
    assert len(site.ran) == 2


def test_above_its_part_it_only_goes_on_with_what_it_had(site, store):
    first = [site.give(), site.give()]
    site.turn()
    store.away, site.line = True, Line(0, 4, 8)  # one of two places
    for _ in range(3):
        site.give()
    site.turn()
    assert len(site.ran) == 2
    for ended, begun in enumerate((2, 3)):
        site.end(first[ended])
        site.turn()
        assert len(site.ran) == begun


def test_where_no_part_is_known_what_it_had_is_its_own_to_use_again(site, store):
    first = [site.give(), site.give()]
    site.turn()
    store.away = True
    site.line = Line(0, 0, 1)
    site.give(), site.give(), site.give()
    site.turn()
    assert len(site.ran) == 2
    for request in first:
        site.end(request)
    site.turn()
    assert len(site.ran) == 4


def test_a_worker_that_begins_in_an_outage_and_knows_nobody_grants_nothing(site, store):
    store.away, site.line = True, Line(0, 0, 1)
    site.give()
    site.turn()
    assert site.ran == []
    assert site.keeper.without == {"openai", "gpu"}


def test_when_it_answers_again_it_learns_of_what_runs(site, store, caplog):
    caplog.set_level("INFO")
    store.away = True
    site.give()
    site.turn()
    assert len(site.ran) == 1
    assert running(store) == 0
    store.away = False
    site.turn()
    assert running(store) == 1
    assert not site.keeper.is_away
    said = [r.getMessage() for r in caplog.records if "store of resources" in r.getMessage()]
    assert len(said) == 2
    assert site.keeper.outages == 1


def test_what_ended_in_an_outage_is_told_after_it(site, store):
    request = site.give()
    site.turn()
    store.away = True
    site.end(request)
    site.turn()
    assert running(store) == 1
    store.away = False
    site.turn()
    assert running(store) == 0


def test_batch_has_its_share_of_the_part(store):
    site = Site(store)
    store.away = True
    site.dispatcher.lanes[INTERACTIVE].asked_at -= 1.0  # silent since: nothing comes first
    for _ in range(3):
        site.give(kind=BATCH)
    site.turn()
    assert len(site.ran) == 1  # of two places, a fifth and one at least
    site.give()
    site.turn()
    assert len(site.ran) == 2


# two workers


def test_two_workers_never_run_more_than_there_are_places(store):
    sites = [Site(store, "w1"), Site(store, "w2")]
    for _ in range(5):
        for site in sites:
            site.give()
    done: list[Any] = []
    for _ in range(30):
        for site in sites:
            site.turn()
            alive = [r for s in sites for r in s.ran if r not in done]
            assert len(alive) <= 2
            for request in [r for r in site.ran if r not in done][:1]:
                done.append(request)
                site.end(request)
    assert len(done) == 10


def test_what_it_wants_is_its_own_lease(site):
    site.give()
    (want,) = site.keeper.wants
    assert isinstance(want, Want)
    assert module.STALE_SECONDS < LEASE_SECONDS


def test_tenants_take_turns_in_what_waits_for_places(site):
    """By what each has had: who comes later stands behind no more than is asked for already."""
    waiting = [site.give(tenant="big", waits=number / 100) for number in range(30)]
    site.turn()
    for _ in range(6):
        site.end(site.ran[-2])
        site.turn()
    assert set(site.ran) <= set(waiting)
    small = [site.give(tenant="small", waits=1.0) for _ in range(3)]
    for _ in range(20):  # before the last of the big one; turns go by seconds, which may be uneven
        site.end(site.ran[-2])
        site.turn()
    assert set(small) <= set(site.ran)
    assert site.dispatcher.lanes[INTERACTIVE].turns.waiting == 1  # the other has nothing more


def test_a_place_is_charged_to_its_tenant_for_as_long_as_its_task_runs(site):
    request = site.give(tenant="acme")
    turns = site.dispatcher.lanes[INTERACTIVE].places.of(("openai",))
    site.turn()
    (account,) = turns.accounts
    assert (account.tenant, account.running, turns.waiting) == ("acme", 1, 0)
    site.end(request)
    assert account.running == 0
    assert account.time > 0


def test_tenants_whose_tasks_wait_for_places_are_forgotten_with_the_connection(site):
    site.give(tenant="one")
    site.give("a:gpu", tenant="two")
    turns = site.dispatcher.lanes[INTERACTIVE].turns
    assert turns.waiting == 2
    site.dispatcher.disconnect()
    assert turns.waiting == 0


# what is pulled, and by whom


def test_no_more_is_pulled_than_may_start_until_it_is_known_that_it_must_wait(site):
    """Else one worker would pull what another has slots for, while it asks about the first."""
    lane = site.dispatcher.lanes[INTERACTIVE]
    while lane.room() > 0:
        site.give()
    assert site.waiting == lane.credit < ROOM_LIMIT
    site.turn()  # two have their places, and so all others must wait
    assert lane.room() == lane.credit > 0
    site.give()
    assert lane.room() == lane.credit


def test_what_this_worker_has_no_slot_for_goes_back_to_those_who_have(site):
    for _ in range(4):
        site.give("a")
    waiting = waiting_of(site.give())
    returned: list[Any] = []
    site.dispatcher.giving_back.uncleared = lambda lane, window, found, before: returned.extend(
        found
    )
    waiting.received_at -= 50.0
    for request in site.ran:
        request.fair_slot.started_at -= 100.0
    for hold_seconds in (30.0, 1.0):  # nobody else has a slot either, however short it is to hold
        site.clearing.give_back(hold_seconds, 1000.0, False)
    assert returned == []
    waiting.received_at += 48.0
    site.clearing.give_back(3.0, 1000.0, True)
    assert returned == []
    site.clearing.give_back(1.0, 1000.0, True)
    assert returned == [waiting]
    returned.clear()
    site.ran[0].fair_slot.started_at = monotonic()  # its last task was short, and so may this be
    site.clearing.give_back(1.0, 1000.0, True)
    assert returned == []
    site.ran[0].fair_slot.started_at -= 10.0
    site.ran[0].fair_slot.release()  # in the pool's thread: the loop has yet to hear of it
    site.clearing.give_back(1.0, 1000.0, True)
    assert returned == []
    site.end(site.ran[0])
    returned.clear()
    site.clearing.give_back(1.0, 1000.0, True)
    assert returned == []


# two threads


def test_what_is_granted_as_the_connection_goes_is_given_back_without_a_look(site, store):
    """No loop runs until there is a broker again, and the keeper would renew it all that time."""
    site.give()
    turn = store.turn

    def lost_meanwhile(*args: Any) -> Any:
        answer = turn(*args)
        site.dispatcher.disconnect()
        return answer

    store.turn = lost_meanwhile
    site.keeper.turn()
    assert running(store) == 1
    store.turn = turn
    site.keeper.turn()
    assert running(store) == 0


def test_a_place_that_is_lost_as_its_task_begins_is_kept(site):
    request = site.give()
    site.keeper.turn()
    places, lease = site.keeper.places, waiting_of(request).want.lease
    assert places.claim(lease)
    assert places.lose([lease]) == 1
    assert lease in places
    assert not places.claim("another")


def test_one_whose_queue_is_paused_while_it_is_asked_for_does_not_start(site, store):
    site.give()
    lanes, keys = site.dispatcher.lanes, frozenset({"celery"})
    site.dispatcher.pausing.change(lanes, frozenset(), keys)
    site.turn()
    assert site.ran == []
    site.clearing.audit(monotonic())
    site.turn()
    assert running(store) == 0
    site.dispatcher.pausing.change(lanes, frozenset(), frozenset())
    site.dispatcher.pump()
    site.turn()
    assert len(site.ran) == 1


def test_a_deadline_that_a_pause_has_put_off_stays_so_when_it_waits_again(site):
    site.dispatcher.policy.resize(0, monotonic())
    request = site.give()
    waiting, lane = waiting_of(request), site.dispatcher.lanes[INTERACTIVE]
    site.keeper.wants = [waiting.want]
    site.turn()
    lane.held = [lane.held[0]._replace(deadline=Deadline(1e9, 1.0))]
    site.clearing.audit(monotonic() + IDLE_SECONDS)
    assert waiting.held.deadline == Deadline(1e9, 1.0)


def test_a_store_that_fails_in_any_other_way_is_an_outage_too(site, store, caplog):
    def broken(*args: Any) -> Any:
        raise ValueError("an answer that nobody understands")

    first = site.give()
    site.turn()
    turn, store.turn = store.turn, broken
    site.give()
    site.end(first)
    site.turn()
    site.turn()
    assert len(site.ran) == 2
    assert site.keeper.is_away
    assert caplog.text.count("Traceback") == 1
    store.turn = turn
    site.turn()
    assert running(store) == 1  # the first one's end was told in the end


# the hook


def test_the_hook_is_not_asked_about_celerys_own_work(site):
    asked: list[Any] = []
    site.clearing.hooking = SimpleNamespace(
        ask=lambda waiting: asked.append(waiting.request.task.name),
        settle=lambda clearing, now: None,
    )
    for name in ("celery.chord_unlock", "celery.starmap", "a"):
        site.give(name, kind=BATCH)
    assert asked == ["celery.starmap", "a"]
