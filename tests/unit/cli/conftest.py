"""An app of the test's own, with its own tasks only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, _state

from celery_fair import Fair


@pytest.fixture(autouse=True)
def no_shared_tasks(monkeypatch):
    """Keep the shared tasks of other test modules and plugins out of the apps made here."""
    builtin = {
        adds
        for adds in _state._on_app_finalizers
        if getattr(adds, "__module__", "") == "celery.app.builtins"
    }
    monkeypatch.setattr(_state, "_on_app_finalizers", builtin)


@pytest.fixture
def make_app() -> Iterator[Callable[..., Celery]]:
    """``make_app(broker="redis://", tasks=("a", …), fair={…}, **conf)``: an app with a Fair."""
    made = []

    def make(broker="memory://", tasks=(), fair=(), install=True, **conf) -> Celery:
        app = Celery("shop", broker=broker, set_as_current=False)
        app.conf.update(conf)
        made.append(app)
        if install:
            Fair(app, **dict(fair))
        for name in tasks:
            add_task(app, name)
        return app

    yield make
    for app in made:
        app.close()


def add_task(app: Celery, name: str, **options: Any) -> None:
    """Register a task that does nothing."""

    def nothing():
        pass

    app.task(name=name, shared=False, **options)(nothing)
