"""What is told of a tenant, and of settings that are secret."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair, FairHeader, FairSettings

KEY = "a key of sixteen"
OTHER_KEY = "another key that long"


@pytest.fixture
def hashing(app: Celery, fair: Fair) -> Fair:
    """The app's Fair, told to hash tenants."""
    app.conf.fair = {"tenant_hash_key": KEY}
    return fair


def tenants(sent: Any) -> list[str | None]:
    return [message.header.tenant for message in sent()]


def test_without_a_key_a_tenant_travels_as_it_is(app: Celery, fair: Fair, sent: Any) -> None:
    app.send_task("x", tenant="acme")
    assert tenants(sent) == ["acme"]


def test_with_a_key_it_travels_as_a_hash_that_is_always_the_same(
    app: Celery, hashing: Fair, sent: Any
) -> None:
    app.send_task("x", tenant="acme")
    with hashing.inherit(tenant="acme"):
        app.send_task("x")
    app.send_task("x", tenant="globex")
    one, same, other = tenants(sent)
    assert one == same != other
    assert len(str(one)) == 32
    assert "acme" not in str(one)


def test_another_key_gives_another_hash(app: Celery, fair: Fair, sent: Any) -> None:
    app.conf.fair = {"tenant_hash_key": KEY}
    app.send_task("x", tenant="acme")
    (one,) = tenants(sent)
    fair._settings = FairSettings.load({"tenant_hash_key": OTHER_KEY}, {}, {})
    app.send_task("x", tenant="acme")
    assert tenants(sent)[-1] != one


def test_no_tenant_is_no_hash(app: Celery, hashing: Fair, sent: Any) -> None:
    app.send_task("x")
    assert tenants(sent) == [None]


def test_what_is_inherited_is_hashed_once(
    app: Celery, hashing: Fair, working: Callable[..., Any]
) -> None:
    """A retry and a child have the hash of their parent, and not a hash of that."""

    @app.task(bind=True, name="shop.parent")
    def parent(self: Any) -> None:
        if not self.request.retries:
            raise self.retry(countdown=0)
        child.delay()

    @app.task(name="shop.child")
    def child() -> None:
        done.set()

    done = threading.Event()
    with working(app) as log:
        parent.apply_async(tenant="acme")
        assert done.wait(10)
    read = [(headers["task"], FairHeader.read(headers)) for headers in log.headers]
    assert [name for name, _ in read] == ["shop.parent", "shop.parent", "shop.child"]
    assert len({header.tenant for _, header in read if header}) == 1


def test_the_message_has_nothing_else_of_it(app: Celery, hashing: Fair, sent: Any) -> None:
    app.send_task("x", tenant="acme")
    (message,) = sent()
    assert "acme" not in json.dumps([message.headers, message.properties], default=str)


def test_a_key_is_shown_nowhere() -> None:
    settings = FairSettings.load({"tenant_hash_key": KEY}, {}, {})
    assert settings.shown() == {"tenant_hash_key": "**********"}
    assert KEY not in repr(settings)


def test_a_key_of_digits_is_a_key_in_the_environment() -> None:
    settings = FairSettings.load({}, {}, {"CELERY_FAIR__TENANT_HASH_KEY": "1234567890123456"})
    assert settings.tenant_hash_key is not None
    assert settings.tenant_hash_key.get_secret_value() == "1234567890123456"


def test_the_password_in_a_url_is_shown_nowhere() -> None:
    settings = FairSettings.load({"state_url": "redis://user:hunter2@host:6379/1"}, {}, {})
    assert settings.shown() == {"state_url": "redis://user:**@host:6379/1"}
