"""How a run of the bench ends when something fails on the way."""

from __future__ import annotations

import pytest
from celery import Celery
from celery.exceptions import CeleryCommandException
from kombu.exceptions import OperationalError

from celery_fair.bench.probing import Plan
from celery_fair.bench.recording import Look
from celery_fair.bench.report import of_probes
from celery_fair.bench.run import Bench
from tests.brokers.process import free_port

PLAIN = Look(0.0, {}, {"p1@host": {"pool": {"max-concurrency": 4}}})


@pytest.fixture
def app():
    app = Celery("bench", broker=f"redis://127.0.0.1:{free_port()}/0", set_as_current=False)
    yield app
    app.close()


@pytest.mark.parametrize(
    "error",
    [OperationalError("gone"), ConnectionResetError(), CeleryCommandException("gone", 69)],
    ids=repr,
)
def test_a_broker_that_is_lost_while_workers_are_asked_ends_it_with_what_there_is(app, error):
    def ask(command, **_):
        raise error

    bench = Bench(app, Plan(), ask, PLAIN)
    bench._run = bench._sample
    bench.run()
    assert bench.ended == "broker lost"
    assert bench.error is error
    report = of_probes(bench)
    assert report["slots"] == 4
    assert report["kinds"]["batch"]["sent"] == 0
    assert report["error"] == str(error)
    assert report["seconds"] > 0
    assert (report["utilisation"], report["tasks_a_second"]) == (None, None), "nobody counted"


def test_ctrl_c_is_an_end_too(app):
    def interrupted():
        raise KeyboardInterrupt

    bench = Bench(app, Plan(), lambda *_, **__: {}, PLAIN)
    bench._run = interrupted
    bench.run()
    assert bench.ended == "interrupted"


def test_a_broker_that_is_away_before_the_first_probe_ends_it(app):
    bench = Bench(app, Plan(), lambda *_, **__: {}, PLAIN)
    bench.run()
    assert bench.ended == "broker lost"


def test_a_defect_is_no_lost_broker(app):
    def ask(command, **_):
        raise ZeroDivisionError

    bench = Bench(app, Plan(), ask, PLAIN)
    bench._run = bench._sample
    with pytest.raises(ZeroDivisionError):
        bench.run()
