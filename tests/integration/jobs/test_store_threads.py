"""Many workers of one job at once, on Redis's own clock, some of which are never heard of again."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter

import pytest
from redis import Redis

from celery_fair.internals import Connected
from celery_fair.jobs import keeping
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import ENDED
from celery_fair.jobs.redis_store import RedisStore
from celery_fair.jobs.store import Claim, Failed, Report
from celery_fair.state import State

ITEMS, WORKERS, LEASE = 2_000, 6, 0.3
TASK = "shop.summarize"


@pytest.fixture
def store(redis_url):
    with Redis.from_url(redis_url) as client:
        yield RedisStore(State(lambda: Connected(client, "", lambda: None)))


class Fleet:
    """Threads that claim and report; what each has counted, it notes."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.tickets: list[str] = []
        self.counted: Counter[int] = Counter()
        self.ran: Counter[int] = Counter()
        self.lost = 0
        self.errors: list[BaseException] = []
        self._names = map(str, itertools.count())

    def produce(self) -> None:
        """One of two producers that both submit all of it."""
        at = 0
        while at < ITEMS:
            items = [str(index) for index in range(at, min(at + 97, ITEMS))]
            at = self.store.append("j", at, items).submitted
            self.grant()
        self.store.close("j", ITEMS)

    def grant(self) -> None:
        self.tickets += self.store.grant("j", [f"g{next(self._names)}" for _ in range(3)])

    def keep(self) -> None:
        for found in self.store.overdue([TASK]):
            self.tickets += found.tickets

    def work(self, seed: int) -> None:
        draw = random.Random(seed)
        while self.store.progress("j").state not in ENDED:
            if draw.random() < 0.05:
                self.keep()
            try:
                ticket = self.tickets.pop()
            except IndexError:
                self.keep()
                continue
            claim = self.store.claim("j", ticket, LEASE)
            if isinstance(claim, Claim):
                self.run(claim, draw)

    def run(self, claim: Claim, draw: random.Random) -> None:
        self.ran.update(claim.indices)
        if draw.random() < 0.05:
            self.lost += 1
            return  # killed: its ticket is still published once more
        half = len(claim.indices) // 2 if draw.random() < 0.3 else 0
        follows = f"f{next(self._names)}"
        if half:
            self.tell(claim, 0, half, ends=False)
        self.tell(claim, half, len(claim.indices) - half, ends=True, next_ticket=follows)

    def tell(self, claim: Claim, after: int, count: int, **options) -> None:
        indices = claim.indices[after : after + count]
        failed = [Failed(index, "ValueError", "bad") for index in indices if index % 100 == 7]
        said = Report(after, count, failed, seconds=0.001 * count)
        told = self.store.report(claim, said, size=9, **options)
        assert self.store.report(claim, said, size=9, **options).counted == told.counted
        if told.counted:
            self.counted.update(indices)
        if told.next_ticket:
            self.tickets.append(told.next_ticket)

    def guarded(self, run, *args) -> None:
        try:
            run(*args)
        except BaseException as error:
            self.errors.append(error)


def test_whoever_dies_and_however_often_they_report_each_item_is_counted_once(store):
    store.create(Plan("j", TASK, backlog=12, ahead=500))
    fleet = Fleet(store)
    threads = [threading.Thread(target=fleet.guarded, args=(fleet.produce,)) for _ in range(2)]
    threads += [
        threading.Thread(target=fleet.guarded, args=(fleet.work, seed)) for seed in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert fleet.errors == []
    progress = store.progress("j")
    assert progress.done + progress.failed == progress.submitted == ITEMS
    assert progress.lost >= fleet.lost > 0
    assert set(fleet.ran) == set(range(ITEMS))
    lost = {one.index for one in store.failures("j") if one.error == keeping.WORKER_LOST}
    assert set(fleet.counted) == set(range(ITEMS)) - lost
    assert set(fleet.counted.values()) == {1}
    assert progress.failed == ITEMS // 100 + len(lost - set(range(7, ITEMS, 100)))
