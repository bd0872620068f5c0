"""Workers are asked to tell more while somebody looks, and Flower's loop never waits for that."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from celery_fair.integrations.flower import watching as module
from celery_fair.integrations.flower.watching import SAY_SECONDS, Watching


class App:
    """Counts what is said; may be as slow as a lost broker, or fail as it does."""

    def __init__(self) -> None:
        self.said = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.error: Exception | None = None

    def connection_for_write(self):
        return nullcontext()

    def watch(self, app, connection):
        self.may_go_on.wait(10)
        if self.error is not None:
            raise self.error
        self.said += 1


@pytest.fixture
def app(monkeypatch):
    app = App()
    monkeypatch.setattr(module, "watch", app.watch)
    yield app
    app.may_go_on.set()


def look(watching, app, now):
    watching.looked(app, now)
    watching._saying.join(10)


def test_it_is_said_at_the_first_look_and_again_long_before_workers_forget(app):
    watching = Watching()
    for second in range(61):
        look(watching, app, 100.0 + second)
    assert app.said == 4
    assert SAY_SECONDS == 20


def test_nobody_is_asked_anything_while_nobody_looks(app):
    Watching()
    assert app.said == 0


def test_a_broker_that_hangs_keeps_nobody_waiting_and_one_thread(app):
    app.may_go_on.clear()
    watching = Watching()
    watching.looked(app, 0.0)
    first = watching._saying
    watching.looked(app, 100.0)
    assert watching._saying is first
    assert first.daemon


def test_a_broker_that_is_lost_is_said_once(app, caplog):
    app.error = OSError("connection refused")
    watching = Watching()
    for now in (0.0, 30.0):
        look(watching, app, now)
    assert caplog.text.count("workers can't be asked to tell more") == 1
