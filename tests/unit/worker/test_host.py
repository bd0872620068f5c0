from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import celery
import pytest

import celery_fair.worker
from celery_fair.worker import host
from tests.apps.lacking import owner_of

WORKER = Path(celery_fair.worker.__file__).parent
POOLS = ["prefork", "thread", "gevent", "eventlet", "solo"]

NEEDS = [
    (need.where, name, driver_type, pool)
    for table, driver_type, pool in [
        (host.EVERYWHERE, "redis", "prefork"),
        (host.ON_VIRTUAL, "memory", "prefork"),
        *((needs, driver_type, "prefork") for driver_type, needs in host.BY_TRANSPORT.items()),
        *((needs, "redis", module.split(".")[-1]) for module, needs in host.BY_POOL.items()),
    ]
    for need in table
    for name in need.names.split()
]

SET_BY_US = {"_brpop_sent_at", "_replace"}
"""kombu's own attributes that nobody misses where they are not there; and one of named tuples."""


def pool_of(name: str) -> Any:
    pool_class = import_module(f"celery.concurrency.{name}").TaskPool
    return object.__new__(pool_class)


@pytest.fixture
def remove() -> Iterator[Callable[[str, str], None]]:
    """``remove(where, name)``: for the test, neither a class nor its methods have it."""
    undo: list[Callable[[], None]] = []

    def take(where: str, name: str) -> None:
        owner = owner_of(where)
        for holder in getattr(owner, "__mro__", (owner,)):
            for key, value in list(vars(holder).items()):
                if key == name:
                    delattr(holder, name)
                elif type(value) is FunctionType and name in value.__code__.co_names:
                    setattr(holder, key, lambda *args, **kwargs: None)
                else:
                    continue
                undo.append(partial(setattr, holder, key, value))

    yield take
    for put_back in undo:
        put_back()


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("driver_type", ["redis", "amqp", "memory", "filesystem", "sql"])
def test_everything_is_there_in_the_installed_versions(driver_type, pool, caplog):
    assert host.is_complete(driver_type, pool_of(pool))
    assert not caplog.records


@pytest.mark.parametrize(("where", "name", "driver_type", "pool"), NEEDS)
def test_one_warning_names_what_is_missing(where, name, driver_type, pool, remove, caplog):
    adapted = pool_of(pool)
    remove(where, name)
    assert not host.is_complete(driver_type, adapted)
    (record,) = caplog.records
    assert f"{where} has no {name}, needed for " in record.getMessage()
    assert "runs as plain Celery" in record.getMessage()


def test_what_another_transport_or_pool_needs_is_not_missed(remove, caplog):
    remove("kombu.transport.redis:Channel", "_in_poll")
    remove("celery.concurrency.thread:ApplyResult", "f")
    assert host.is_complete("amqp", pool_of("prefork"))
    assert not caplog.records


def test_a_module_that_is_not_there_is_named(monkeypatch, caplog):
    gone = host.Need("celery.worker.moved:Thing", "name", "a test")
    monkeypatch.setattr(host, "EVERYWHERE", (gone,))
    assert not host.is_complete("memory", pool_of("solo"))
    assert "celery.worker.moved:Thing has no name" in caplog.text


def test_a_newer_celery_with_all_names_is_used_with_a_warning(monkeypatch, caplog):
    newer = (*host.NEWEST_RUN[:1], host.NEWEST_RUN[1] + 1)
    monkeypatch.setattr(celery, "VERSION", (*newer, 0))
    assert host.is_complete("redis", pool_of("prefork"))
    assert "newer than what celery-fair was tested with" in caplog.text


@pytest.mark.parametrize("file", sorted(WORKER.rglob("*.py")), ids=lambda file: file.name)
def test_every_private_name_that_is_used_is_looked_up_first(file):
    """By hand, in `host`: a name that is leaned on and not looked up dies with a version."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if ast.unparse(node.value) == "self"}
    private = {node.attr for node in attributes if re.match("_[^_]", node.attr)} - own
    assert private <= {name for _, name, _, _ in NEEDS} | SET_BY_US
