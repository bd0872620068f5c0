"""The sites of the contract: one worker a broker and pool, shared by the tests of a module."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.broker import (
    Broker,
    filesystem_broker,
    memory_broker,
    sqlite_broker,
)
from tests.brokers.fixtures import watch
from tests.integration.contract.site import Site, memory_site, process_site

SLOTS = 4
POOLS = ("prefork", "threads", "gevent", "eventlet", "solo")

SITES = [
    *(f"redis-{pool}" for pool in POOLS),
    *(f"rabbitmq-{pool}" for pool in POOLS if pool != "eventlet"),
    "quorum-threads",
    "perconsumer-threads",
    "filesystem-threads",
    "sqlite-threads",
    "memory-threads",
]

APPS = {"perconsumer": "tests.apps.per_consumer", "sqlite": "tests.apps.quick_sqlite"}

QUORUM = {"task_default_queue_type": "quorum", "task_create_missing_queue_type": "quorum"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "site" in metafunc.fixturenames:
        metafunc.parametrize("site", SITES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def site(request, tmp_path_factory) -> Iterator[Site]:
    """A worker of four slots (solo: one) with a reserve of one, kept for the module's tests."""
    name, pool = request.param.split("-")
    if pool == "eventlet" and importlib.util.find_spec("eventlet") is None:
        pytest.skip("eventlet is not installed; it is on its way out upstream")
    folder = tmp_path_factory.mktemp(request.param)
    broker = _broker(request, name, folder)
    slots = 1 if pool == "solo" else SLOTS
    settings = {"reserve": min(1, slots - 1)}
    if name == "memory":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CELERY_FAIR__RESERVE", str(settings["reserve"]))
            with memory_site(broker, folder, slots, patch.setenv) as site:
                yield site
        return
    # Celery reads its events' connection for 0.1 s after each message where there are heartbeats.
    conf = {"broker_heartbeat": 0} if pool in ("gevent", "eventlet") else {}
    site = process_site(
        APPS.get(name, "tests.apps.mixed"),
        broker,
        folder,
        pool=pool,
        slots=slots,
        settings=settings,
        conf={**conf, **(QUORUM if name == "quorum" else {})},
    )
    yield site
    site.close()


@pytest.fixture(autouse=True)
def _report_the_log(request) -> None:
    """Put the shared worker's log into the report of a failing test."""
    if "site" in request.fixturenames:
        worker = request.getfixturevalue("site").worker
        if worker is not None:
            watch(request, worker)


def _broker(request, name: str, folder: Path) -> Broker:
    if name == "redis":
        server = request.getfixturevalue("shared_redis")
        database = next(request.getfixturevalue("_redis_databases"))
        with server.client(database) as client:
            client.flushdb()
        return Broker(name, server.url_of(database), server.url_of(database))
    if name in ("rabbitmq", "quorum", "perconsumer"):
        server = request.getfixturevalue("shared_rabbitmq")
        return Broker(name, server.url_of(server.new_vhost()), "rpc://")
    if name == "filesystem":
        return filesystem_broker(folder / "broker")
    if name == "sqlite":
        return sqlite_broker(folder / "broker")
    return memory_broker()
