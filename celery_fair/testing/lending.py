"""A team's app, for one test, on the test's broker; afterwards it is as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from celery import signals

from celery_fair.app import Fair
from celery_fair.errors import NotInstalled
from celery_fair.internals import current_app_kept, forget_connections

OF_CELERY: Final = (
    "CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL",
    "CELERY_RESULT_BACKEND",
)  # fmt: skip
"""Celery believes these more than an app's settings."""

QUIET: Final = {
    "task_always_eager": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "broker_connection_retry_on_startup": False,
}


@contextmanager
def lent(app: Any, conf: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Fair]:
    """Give ``app`` these settings, Celery's and celery-fair's, and take them back.

    Raises `NotInstalled` for an app without celery-fair.
    """
    fair = Fair.of(app)
    if fair is None:
        raise NotInstalled(f"the app {app.main!r} that the fixture fair_app returns")
    app.conf.get("broker_url")  # it reads its settings, which may fill the environment, now
    with _environment(settings), _configured(app, {**QUIET, **conf}), current_app_kept():
        _forget(app, fair)
        try:
            yield fair
        finally:
            _forget(app, fair)


def as_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings of celery-fair as an operator would give them, who beats the code's."""
    return {
        f"CELERY_FAIR__{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }


@contextmanager
def _environment(settings: Mapping[str, Any]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(as_environment(settings))
    for name in OF_CELERY:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name in {*OF_CELERY, *as_environment(settings)}:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextmanager
def _configured(app: Any, conf: Mapping[str, Any]) -> Iterator[None]:
    absent = object()
    changes = app.conf.changes
    before = {name: changes.get(name, absent) for name in conf}
    app.conf.update(conf)
    # With a receiver Celery leaves logging alone: pytest catches what is logged.
    signals.setup_logging.connect(_leave_logging_alone)
    try:
        yield
    finally:
        signals.setup_logging.disconnect(_leave_logging_alone)
        for name, value in before.items():
            if value is absent:
                changes.pop(name, None)
            else:
                changes[name] = value


def _leave_logging_alone(**_: Any) -> None:
    """Do nothing."""


def _forget(app: Any, fair: Fair) -> None:
    """Have both read their settings anew, and connect to what these name."""
    for part in (fair.jobs, fair.resources, fair.identity, fair.admission):
        part.close()
    fair._settings = fair._lanes = fair._globs = None
    forget_connections(app)
