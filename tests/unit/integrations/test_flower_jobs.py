"""The jobs that the Fair page shows: read in a thread, and not at all where there are none."""

from __future__ import annotations

import json
import threading

import pytest
from celery import Celery

from celery_fair import Fair, StateAway
from celery_fair.integrations.flower.jobs import EVERY_SECONDS, SHOWN, TEXT, Jobs
from tests.unit.jobs.kept import keep, work

NOTHING = {"jobs": [], "away": False}


@pytest.fixture
def app():
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    Fair(app)
    yield app
    app.close()


@pytest.fixture
def store(app):
    return Fair.of(app).jobs.store


def asked(jobs, app, now):
    """What is shown once the look of that time has been answered."""
    jobs.picture(app, now)
    jobs._asking.join(5)
    return jobs.picture(app, now)


def test_a_look_shows_what_the_look_before_has_found(app, store):
    keep(store, "mine", 4)
    work(store, "mine", 1, failing=1)
    (job,) = asked(Jobs(), app, 10.0)["jobs"]
    assert (job["id"], job["state"], job["failed"], job["total"]) == ("mine", "running", 1, 4)
    assert json.loads(json.dumps(job)) == {**job, "eta": job["eta"] and list(job["eta"])}
    assert "no page" not in json.dumps(job), "no item, and nothing that an error said"


def test_it_is_asked_every_two_seconds_however_many_look(app, store, monkeypatch):
    calls = []
    monkeypatch.setattr(type(store), "list", lambda *_: calls.append(1) or [])
    jobs = Jobs()
    for now in (0.0, 0.1, EVERY_SECONDS - 0.1, EVERY_SECONDS + 0.1):
        asked(jobs, app, now)
    assert len(calls) == 2


def test_a_redis_that_hangs_is_waited_for_by_one_thread_alone(app, store, monkeypatch):
    answer = threading.Event()
    calls = []

    def hang(*_):
        calls.append(1)
        answer.wait(10)
        return []

    monkeypatch.setattr(type(store), "list", hang)
    jobs = Jobs()
    for now in (0.0, 10.0, 20.0):
        assert jobs.picture(app, now) == NOTHING
    answer.set()
    jobs._asking.join(5)
    assert len(calls) == 1


def test_old_figures_are_said_to_be_old(app, store, monkeypatch):
    keep(store, "mine", 4)
    jobs = Jobs()
    assert asked(jobs, app, 0.0)["away"] is False

    def away(*_):
        raise StateAway

    monkeypatch.setattr(type(store), "list", away)
    shown = asked(jobs, app, 10.0)
    assert shown["away"] is True
    assert [job["id"] for job in shown["jobs"]] == ["mine"]
    monkeypatch.undo()
    assert asked(jobs, app, 20.0)["away"] is False


def test_an_app_without_a_redis_is_asked_once(app):
    app.conf.task_always_eager = False
    jobs = Jobs()
    assert asked(jobs, app, 0.0) == NOTHING
    thread = jobs._asking
    assert asked(jobs, app, 1000.0) == NOTHING
    assert jobs._asking is thread


def test_an_app_without_celery_fair_has_no_jobs():
    plain = Celery("plain", broker="memory://", set_as_current=False)
    assert asked(Jobs(), plain, 0.0) == NOTHING
    plain.close()


def test_the_newest_are_shown_and_long_words_cut(app, store):
    for number in range(SHOWN + 1):
        keep(store, f"job-{number:02}", 1, task="x" * 1000)
    store.pause(f"job-{SHOWN}", "y" * 1000)
    shown = asked(Jobs(), app, 0.0)["jobs"]
    assert len(shown) == SHOWN
    assert shown[0]["id"] == f"job-{SHOWN}"
    assert len(shown[0]["task"]) == TEXT
    assert len(shown[0]["reason"]) == TEXT
