"""The fixtures, and the mark by which a test says what worker it wants."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from celery_fair.demo.processes import Children
from celery_fair.errors import BadOption
from celery_fair.testing.brokers import TestBroker, open_broker
from celery_fair.testing.fair_worker import FairWorker
from celery_fair.testing.wanted import Wanted

BROKER_VARIABLE: Final = "CELERY_FAIR_TEST_BROKER"
MARK: Final = (
    "fair(concurrency=4, pool='threads', app=None, **settings): the worker of `fair_worker`; "
    "settings of celery-fair for this test"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, for those who run with ``--strict-markers``."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture
def fair_app() -> Any:
    """Return the Celery app under test: to be overridden in the team's ``conftest.py``."""
    raise BadOption(
        "the fixture fair_app", "your own, in conftest.py, that returns your Celery app", None
    )


@pytest.fixture(scope="session")
def fair_broker() -> Iterator[TestBroker]:
    """The broker of all tests: ``CELERY_FAIR_TEST_BROKER``, else an own Redis, else memory."""
    with (
        tempfile.TemporaryDirectory(prefix="celery-fair-test-") as folder,
        Children(Path(folder)) as children,
    ):
        yield open_broker(os.environ.get(BROKER_VARIABLE, ""), children)


@pytest.fixture
def fair_worker(
    request: pytest.FixtureRequest, fair_app: Any, fair_broker: TestBroker
) -> Iterator[FairWorker]:
    """A real worker on ``fair_app``, with both lanes; it is stopped however the test ends."""
    mark = request.node.get_closest_marker("fair")
    wanted = Wanted.of(mark.args, mark.kwargs) if mark is not None else Wanted()
    with FairWorker.running(fair_app, fair_broker, wanted) as worker:
        yield worker
