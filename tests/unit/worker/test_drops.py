"""Tasks that end without a slot are counted once, and under the kind of their queue."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from celery import Celery, signals

from celery_fair import Fair, Observer
from celery_fair.observe.counts import Counts
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.drops import Drops


class Told(Observer):
    def __init__(self):
        self.tasks = []

    def dropped(self, task):
        self.tasks.append(task)


@pytest.fixture
def app():
    app = Celery("shop", broker="memory://", set_as_current=False)

    @app.task(name="shop.answer", shared=False)
    def answer():
        pass

    return app


@pytest.fixture
def fair(app):
    return Fair(app)


@pytest.fixture
def counts(fair):
    counts = Counts(OUTCOMES, DROPS)
    drops = Drops(fair, counts)
    yield counts
    drops.close()


def revoke(app, queue="celery.batch", header="batch 1000.0", **more):
    request = SimpleNamespace(
        id="id-1",
        headers={"fair": header} if header else {},
        delivery_info={"routing_key": queue},
        retries=0,
    )
    signals.task_revoked.send(sender=app.tasks["shop.answer"], request=request, **more)


def test_what_celery_discards_is_counted_and_told(app, fair, counts):
    told = Told()
    fair.add_observer(told)
    revoke(app, terminated=False, expired=False)
    revoke(app, terminated=False, expired=True)
    assert +Counter(counts.dropped[BATCH]) == {"revoked": 1, "expired": 1}
    assert [(task.name, task.kind, task.outcome, task.enqueued_at) for task in told.tasks] == [
        ("shop.answer", "batch", "revoked", 1000.0),
        ("shop.answer", "batch", "expired", 1000.0),
    ]


def test_one_that_was_terminated_had_a_slot_and_one_of_another_app_is_not_ours(app, counts):
    revoke(app, terminated=True)
    other = Celery("other", set_as_current=False)
    sender = other.tasks["celery.backend_cleanup"]
    signals.task_revoked.send(sender=sender, request=SimpleNamespace(), terminated=False)
    assert not any(counts.dropped[BATCH].values())


@pytest.mark.parametrize(
    ("queue", "header", "kind"),
    [
        ("celery", "batch 1000.0", INTERACTIVE),
        ("celery.batch", None, BATCH),
        ("elsewhere", "batch 1000.0", BATCH),
        ("elsewhere", None, INTERACTIVE),
    ],
)
def test_its_kind_is_that_of_its_queue_as_in_a_lane(app, counts, queue, header, kind):
    revoke(app, queue, header)
    assert counts.dropped[kind]["revoked"] == 1


def test_of_a_marked_one_its_other_copies_are_told(app, fair):
    told = []
    drops = Drops(fair, Counts(OUTCOMES, DROPS), lambda *copy: told.append(copy))
    revoke(app, header="batch 1000.0", terminated=False)
    revoke(app, header='batch 1000.0 {"once":"a-copy"}', terminated=False)
    drops.close()
    assert told == [("id-1", "a-copy", 0)]


def test_after_its_end_it_hears_nothing(app, fair):
    counts = Counts(OUTCOMES, DROPS)
    Drops(fair, counts).close()
    revoke(app)
    assert not any(counts.dropped[BATCH].values())
