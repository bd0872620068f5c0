"""Tiers by folder, hypothesis profiles, and the check that nothing outlives the session."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psutil
import pytest
from celery import _state

from tests.longest_first import rank
from tests.nodes.nursery import Nursery
from tests.nodes.worker import CeleryProcess

pytest_plugins = [
    "tests.brokers.fixtures",
    "tests.nodes.fixtures",
    "tests.nodes.cluster",
    "tests.flower.fixtures",
]

TESTS = Path(__file__).parent
TIERS = {
    "unit": "unit",
    "integration": "integration",
    "acceptance": "acceptance",
    "benchmarks": "benchmark",
}
RUN_VARIABLE = "FAIR_TEST_RUN"
LEFT_OPEN = "ignore:unclosed <socket:ResourceWarning"
"""Celery's ``close()`` leaves an app's pools to the collector, which would fail whatever test runs
then. What workers leave open is counted in them, by chaos and soak.
"""

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="repeat faults as often, and wait as long, as docs/faults.md says; else a short form",
    )


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether faults are repeated to the full count; a short form keeps `make test` short."""
    return bool(request.config.getoption("--full"))


def pytest_configure(config: pytest.Config) -> None:
    # Every child inherits it, so even one that left its session and its parent is found.
    os.environ[RUN_VARIABLE] = uuid.uuid4().hex
    # A shell without job control starts what is in its background with Ctrl-C ignored, and so
    # would all be that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    CeleryProcess.nursery = Nursery()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of xdist's
        items.sort(key=rank)
    for item in items:
        if item.path.is_relative_to(TESTS):
            tier = item.path.relative_to(TESTS).parts[0]
            if tier in TIERS:
                item.add_marker(TIERS[tier])
            if tier != "unit":
                item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))


@pytest.fixture(autouse=True)
def tasks_of_its_own() -> Iterator[None]:
    """Keep what a test adds out of the apps of the next: Celery gives a task to all that come."""
    before = set(_state._on_app_finalizers)
    yield
    _state._on_app_finalizers.intersection_update(before)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.pluginmanager.hasplugin("dsession"):
        return  # xdist's controller: its workers are its children, and check theirs
    if any("unit" not in item.keywords for item in session.items):
        _collect_what_is_open()
    left = _left_behind()  # before the nursery ends, and with it all that it has forked
    if CeleryProcess.nursery is not None:
        left = [process for process in left if process.pid != CeleryProcess.nursery.pid]
        CeleryProcess.nursery.close()
    if not left:
        return
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    message = f"Processes were left behind (now killed): {left}"
    if reporter:
        reporter.write_line(message, red=True)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _collect_what_is_open() -> None:
    """What the last tests have left to the collector, or it fails the session when that ends."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        for _ in range(3):
            gc.collect()


def _left_behind() -> list[psutil.Process]:
    left = []
    for process in psutil.process_iter(["environ", "status"]):
        environ = process.info["environ"] or {}
        if (
            environ.get(RUN_VARIABLE) == os.environ[RUN_VARIABLE]
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ):
            left.append(process)
    return left
