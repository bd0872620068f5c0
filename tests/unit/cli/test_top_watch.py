"""What `fair top` makes of the events it hears; time is an argument."""

from __future__ import annotations

import pytest

from celery_fair.cli.top_watch import Watch, still
from celery_fair.observe.cluster import Cluster
from tests.unit.cli.replies import NOW, kind, report, wait
from tests.unit.cli.test_top_waits import facts, histogram


class Site:
    """Workers that tell something, and who watches them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.watch = Watch(self.cluster)

    def tell(self, now, *, lost=False, every=1.0, **workers):
        for name, told in workers.items():
            event = {"type": "worker-fair", "hostname": name, "fair_facts": told}
            self.cluster.hear({**event, "fair_every": every}, now)
        self.watch.take(now, lost=lost)

    def picture(self, now, notes=()):
        return self.watch.picture(now, NOW, notes)

    def names(self, now):
        return [worker.name for worker in self.picture(now).workers]


@pytest.fixture
def site():
    return Site()


def test_a_wait_is_known_from_the_second_event_on(site):
    site.tell(100.0, w1=facts(histogram(b1=50)))
    (worker,) = site.picture(100.0).workers
    assert site.picture(100.0).wait(worker, "interactive") is None
    site.tell(101.0, w1=facts(histogram(b1=50, b9=100)))
    assert site.picture(101.0).wait(worker, "interactive") == pytest.approx(0.975)


def test_the_waits_of_all_are_one_histogram(site):
    site.tell(100.0, w1=facts(), w2=facts())
    site.tell(101.0, w1=facts(histogram(b9=90)), w2=facts(histogram(b11=10)))
    assert site.picture(101.0).total_wait("interactive") == pytest.approx(3.75)


def test_an_event_is_counted_once_however_often_one_looks(site):
    site.tell(100.0, w1=facts())
    site.tell(101.0, w1=facts(histogram(b9=90, b11=10)))
    site.tell(102.0)
    site.tell(103.0)
    assert site.picture(103.0).total_wait("interactive") == pytest.approx(3.75)


def test_slots_that_stood_idle_are_a_mean_over_the_last_half_minute(site):
    def told(reserve, protected):
        slots = {"total": 8, "reserve": 2}
        idle = {"reserve": reserve, "protected": protected}
        return facts(slots={**slots, "idle_seconds": idle})

    site.tell(100.0, w1=told(500.0, 7.0))
    site.tell(110.0, w1=told(515.0, 7.0))
    (worker,) = site.picture(110.0).workers
    assert worker.idle_slots() == {"reserve": 1.5, "protected": 0.0}
    for second in range(111, 161):
        site.tell(float(second), w1=told(515.0, 7.0))
    assert worker.idle_slots() == {"reserve": 0.0, "protected": 0.0}


def test_idle_seconds_begin_anew_with_the_worker(site):
    def told(reserve, started_at):
        slots = {"total": 8, "reserve": 2, "idle_seconds": {"reserve": reserve}}
        return facts(slots=slots, started_at=started_at)

    site.tell(100.0, w1=told(500.0, 1.0))
    site.tell(101.0, w1=told(2.0, 2.0))
    (worker,) = site.picture(101.0).workers
    assert worker.idle_slots() == {}
    site.tell(103.0, w1=told(3.0, 2.0))
    assert worker.idle_slots() == {"reserve": 0.5}


def test_a_worker_that_is_gone_is_not_shown_and_its_waits_are_there_when_it_is_back(site):
    site.tell(100.0, w1=facts())
    site.tell(101.0, w1=facts(histogram(b9=100)))
    site.tell(120.0)
    assert site.names(120.0) == []
    assert not site.watch.is_anybody_there
    assert site.watch.last_word == 101.0
    site.tell(121.0, w1=facts(histogram(b9=100)))
    (worker,) = site.picture(121.0).workers
    assert worker.waits.line("interactive", 121.0, 3) == [pytest.approx(0.975), None, None]


def test_while_the_broker_is_lost_the_last_picture_stays(site):
    site.tell(100.0, w1=facts())
    site.tell(160.0, lost=True)
    assert site.names(160.0) == ["w1"]
    site.tell(161.0)
    assert site.names(161.0) == []


def test_facts_that_can_not_be_read_are_counted_and_do_no_harm(site):
    site.tell(100.0, w1=facts(), w2={"kinds": "none"})
    assert site.names(100.0) == ["w1"]
    assert site.watch.unreadable == {"w2"}
    site.tell(101.0, w2=facts())
    assert site.names(101.0) == ["w1", "w2"]
    assert not site.watch.unreadable


def test_the_worst_is_first(site):
    shut = {**report()["gate"], "mode": "protected"}
    waiting = facts(histogram(b12=10))
    before = {name: facts() for name in ("a", "b", "c", "d")}
    before |= {"b": facts(batch=histogram()), "c": facts(gate=shut)}
    site.tell(100.0, **before)
    site.tell(101.0, a=facts(), b=facts(batch=histogram(b14=3)), c=facts(gate=shut), d=waiting)
    assert site.names(101.0) == ["d", "c", "b", "a"]


def test_a_name_with_an_escape_sequence_is_made_plain(site):
    site.tell(100.0, **{"w\x1b[2J": facts()})
    assert site.names(100.0) == ["w\ufffd[2J"]


def test_without_watching_the_waits_are_what_the_workers_say():
    one, two = (report(kind("celery", wait_seconds=wait(p95=p95))) for p95 in (0.2, 0.7))
    picture = still({"w1": one, "w2": two}, NOW)
    assert [worker.name for worker in picture.workers] == ["w2", "w1"]
    assert picture.total_wait("interactive") == 0.7
    assert picture.total_wait("batch") is None


def test_an_answer_that_can_not_be_read_is_mentioned():
    picture = still({"w1": report(), "w2": {"kinds": {}}}, NOW)
    (note,) = picture.notes
    assert note.startswith("1 worker tells facts that can't be read")
