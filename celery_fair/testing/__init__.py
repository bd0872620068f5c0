"""Pytest fixtures with which a team tests that its own tasks wait, share and resume as they should.

In the ``conftest.py`` beside the tests: ``pytest_plugins = ["celery_fair.testing"]``, and a fixture
`fair_app` that returns the team's Celery app. `docs/testing.md` shows each of them.
"""

from __future__ import annotations

from celery_fair.testing.fair_worker import FairWorker
from celery_fair.testing.interrupting import Interrupted
from celery_fair.testing.plugin import (
    fair_app,
    fair_broker,
    fair_worker,
    pytest_configure,
)

__all__ = (
    "FairWorker",
    "Interrupted",
    "fair_app",
    "fair_broker",
    "fair_worker",
    "pytest_configure",
)
