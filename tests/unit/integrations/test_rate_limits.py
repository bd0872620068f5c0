"""An httpx client's refused requests slow their resource down, and go on as they are."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from celery import Celery

from celery_fair import BadOption, Fair
from celery_fair.integrations import rate_limits
from celery_fair.integrations.rate_limits import (
    AsyncRateLimitTransport,
    RateLimitTransport,
    retry_after_of,
)


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Fair, and what it is told; the second is done in whatever thread it is told in."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    fair = Fair(app)
    heard: list[Any] = []
    done = threading.Event()

    def slow_down(resource: str, *, retry_after: float | None) -> None:
        heard.append((resource, retry_after, threading.current_thread() is threading.main_thread()))
        done.set()

    monkeypatch.setattr(fair, "slow_down", slow_down)
    yield fair, heard, done
    fair.uninstall()


def answering(library: Any, status: int, **headers: str) -> Any:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return library.MockTransport(lambda request: library.Response(status, headers=said))


def test_a_refusal_is_told_and_goes_to_the_client(library: Any, told: Any) -> None:
    fair, heard, _ = told
    inner = answering(library, 429, retry_after="20")
    with library.Client(transport=RateLimitTransport(inner, "openai", fair=fair)) as client:
        assert client.get("http://model/").status_code == 429
    assert heard == [("openai", 20.0, True)]


@pytest.mark.parametrize(("status", "count"), [(200, 0), (404, 0), (500, 0), (503, 1), (529, 1)])
def test_only_a_refusal_is_one(library: Any, told: Any, status: int, count: int) -> None:
    fair, heard, _ = told
    transport = RateLimitTransport(answering(library, status), "openai", fair=fair)
    with library.Client(transport=transport) as client:
        client.get("http://model/")
    assert len(heard) == count


def test_an_event_loop_doesnt_wait_for_it(library: Any, told: Any) -> None:
    fair, heard, done = told

    async def ask() -> int:
        transport = AsyncRateLimitTransport(answering(library, 429), "openai", fair=fair)
        async with library.AsyncClient(transport=transport) as client:
            return (await client.get("http://model/")).status_code

    assert asyncio.run(ask()) == 429
    assert done.wait(30)
    assert heard == [("openai", None, False)]


def test_what_cant_be_told_does_no_harm(
    library: Any, told: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair, _, _ = told

    def fails(*args: Any, **options: Any) -> None:
        raise RuntimeError("away")

    monkeypatch.setattr(fair, "slow_down", fails)
    transport = RateLimitTransport(answering(library, 429), "openai", fair=fair)
    with library.Client(transport=transport) as client:
        assert client.get("http://model/").status_code == 429
    assert "openai could not be slowed down" in caplog.text


def test_nonsense_in_a_header_does_no_harm(
    library: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair, _, _ = told
    monkeypatch.setattr(rate_limits, "retry_after_of", lambda headers: 1 / 0)
    transport = RateLimitTransport(answering(library, 429), "openai", fair=fair)
    with library.Client(transport=transport) as client:
        assert client.get("http://model/").status_code == 429


def test_the_app_is_that_of_the_thread_that_asks(
    library: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that is current in a thread alone, as in those of a web server."""
    fair, heard, done = told

    async def ask() -> None:
        transport = AsyncRateLimitTransport(answering(library, 429), "openai")
        async with library.AsyncClient(transport=transport) as client:
            await client.get("http://model/")

    def run() -> None:
        fair.app.set_current()
        asyncio.run(ask())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done.wait(30)
    assert heard == [("openai", None, False)]


def test_a_resource_has_a_name() -> None:
    with pytest.raises(BadOption, match="the name of a resource"):
        RateLimitTransport(None, "")


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9999999999"}, 9999999999.0),
        ({"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, None),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True),
          "date": format_datetime(NOW, usegmt=True)}, 30.0),
        ({"retry-after": format_datetime(NOW - timedelta(days=1), usegmt=True),
          "date": format_datetime(NOW, usegmt=True)}, 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date_or_nothing(headers: Any, seconds: float | None) -> None:
    assert retry_after_of(headers) == seconds
