"""Each kind has its own connections, and what waits for one is measured; a real server, no broker.

The server answers ``/held`` when it is told to, so nothing here depends on how fast anything is.
"""

from __future__ import annotations

import asyncio
import re
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from prometheus_client import CollectorRegistry

from celery_fair import BadOption, Fair, current_kind, fair_task, inherit_kind
from celery_fair.integrations import pool_waits
from celery_fair.integrations.httpx import (
    AsyncFairTransport,
    ConnectionWaits,
    FairTransport,
    wait_histogram,
)
from tests.brokers.waiting import wait_until


@pytest.fixture
def library(request):
    """One of the two; httpx2 needs Python 3.11."""
    return pytest.importorskip(request.param)


BOTH = pytest.mark.parametrize("library", ["httpx", "httpx2"], indirect=True)


class Server(ThreadingHTTPServer):
    """``/held`` waits for ``release``; everything else is answered at once."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        self.release = threading.Event()
        self.held = 0
        self.connections = 0
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request, client_address):
        self.connections += 1
        super().process_request(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/held":
            self.server.held += 1
            self.server.release.wait(20)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


def apart(library, connections=5, **options):
    """A transport whose kinds have so many connections each."""
    limits = library.Limits(max_connections=connections)
    return FairTransport(
        interactive=library.HTTPTransport(limits=limits),
        batch=library.HTTPTransport(limits=limits),
        **options,
    )


def get_as(kind, client, url, **options):
    with inherit_kind(kind):
        return client.get(url, **options)


@pytest.fixture
def flood(server):
    """``flood(client)``: six batch requests to a pool of five, until the server releases them."""
    with ThreadPoolExecutor(6) as threads:

        def start(client):
            sent = [
                threads.submit(get_as, "batch", client, f"{server.url}/held", timeout=20)
                for _ in range(6)
            ]
            wait_until(lambda: server.held == 5, "batch to fill its pool")
            return sent

        yield start
        server.release.set()


@BOTH
def test_with_one_shared_pool_interactive_waits_for_batch(library, server, flood):
    with library.Client(limits=library.Limits(max_connections=5)) as client:
        sent = flood(client)
        with pytest.raises(library.PoolTimeout):
            get_as("interactive", client, server.url, timeout=library.Timeout(20, pool=0.2))
        server.release.set()
        assert {reply.result(20).text for reply in sent} == {"ok"}


@BOTH
def test_with_a_pool_a_kind_it_connects_at_once(library, server, flood):
    transport = apart(library)
    with library.Client(transport=transport) as client:
        sent = flood(client)
        reply = get_as("interactive", client, server.url, timeout=library.Timeout(20, pool=0.2))
        assert reply.text == "ok"
        assert transport.waits["interactive"].longest_seconds < 0.2
        assert (transport.waits["batch"].count, server.held) == (5, 5)  # the sixth waits
        server.release.set()
        assert {reply.result(20).text for reply in sent} == {"ok"}
    waits = transport.waits["batch"]
    assert (waits.count, waits.given_up) == (6, 0)
    assert waits.total_seconds >= waits.longest_seconds > 0


@BOTH
def test_a_wait_that_the_pool_gives_up_counts_with_its_length(library, server, flood):
    transport = apart(library)
    with library.Client(transport=transport) as client:
        sent = flood(client)
        with pytest.raises(library.PoolTimeout):
            get_as("batch", client, server.url, timeout=library.Timeout(20, pool=0.2))
        waits = transport.waits["batch"]
        assert (waits.count, waits.given_up) == (6, 1)
        assert 0.2 <= waits.longest_seconds < 5
        server.release.set()
        assert {reply.result(20).text for reply in sent} == {"ok"}


@BOTH
def test_an_async_client_has_the_same(library, server):
    async def run():
        limits = library.Limits(max_connections=1)
        transport = AsyncFairTransport(
            interactive=library.AsyncHTTPTransport(limits=limits),
            batch=library.AsyncHTTPTransport(limits=limits),
        )
        async with library.AsyncClient(transport=transport, timeout=20) as client:
            with inherit_kind("batch"):
                held = asyncio.create_task(client.get(f"{server.url}/held"))
                second = asyncio.create_task(client.get(server.url))
            while server.held < 1:
                await asyncio.sleep(0.01)
            assert (await client.get(server.url, timeout=library.Timeout(20, pool=0.2))).text
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            server.release.set()
            await held
        return transport.waits

    waits = asyncio.run(run())
    assert (waits["interactive"].count, waits["interactive"].given_up) == (1, 0)
    assert (waits["batch"].count, waits["batch"].given_up) == (2, 1)


def test_the_time_of_connecting_is_no_wait_and_a_stream_of_http_2_is_waited_for(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pool_waits, "perf_counter", lambda: now[0])
    waits = pool_waits.PoolWaits()
    with pool_waits.Wait("batch", waits) as wait:
        for seconds, event in (
            (1, "connection.connect_tcp.started"),  # the pool had one
            (10, "connection.connect_tcp.complete"),
            (0, "http2.send_connection_init.started"),
            (10, "http2.send_connection_init.complete"),
            (2, "http2.send_request_headers.started"),  # it had a stream
            (10, "http2.send_request_headers.complete"),
            (10, "http2.receive_response_headers.started"),
        ):
            now[0] += seconds
            wait.note(event)
    assert waits.report()["batch"] == ConnectionWaits(1, 0, 3.0, 3.0)


def test_a_server_that_isnt_there_was_no_wait_and_a_time_limit_in_the_pool_was_one():
    transport = apart(httpx)
    with httpx.Client(transport=transport) as client:
        with pytest.raises(httpx.ConnectError):
            client.get("http://127.0.0.1:9")
        with pytest.raises(httpx.UnsupportedProtocol):
            client.get("gopher://127.0.0.1")
    waits = transport.waits["interactive"]
    assert (waits.count, waits.given_up) == (1, 0)
    late = pool_waits.PoolWaits()
    with pytest.raises(SoftTimeLimitExceeded), pool_waits.Wait("batch", late):
        raise SoftTimeLimitExceeded
    assert (late.report()["batch"].count, late.report()["batch"].given_up) == (1, 1)


def test_a_transport_that_traces_nothing_is_left_out():
    stub = httpx.MockTransport(lambda request: httpx.Response(200))
    transport = FairTransport(interactive=stub, batch=httpx.HTTPTransport())
    with httpx.Client(transport=transport) as client:
        assert client.get("http://stub/").status_code == 200
    assert transport.waits["interactive"].count == 0


@BOTH
def test_a_trace_of_ones_own_still_gets_every_event(library, server):
    events = []
    with library.Client(transport=apart(library)) as client:
        own = {"trace": lambda event, info: events.append(event)}
        reply = client.get(server.url, extensions=own)
    assert "connection.connect_tcp.started" in events
    assert "http11.send_request_headers.complete" in events
    assert reply.request.extensions["trace"] is own["trace"]


def test_an_async_trace_of_ones_own_too(server):
    events = []

    async def trace(event, info):
        events.append(event)

    async def run():
        transport = AsyncFairTransport(
            interactive=httpx.AsyncHTTPTransport(), batch=httpx.AsyncHTTPTransport()
        )
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get(server.url, extensions={"trace": trace})

    asyncio.run(run())
    assert "http11.send_request_headers.started" in events


def test_connections_are_kept_and_both_pools_closed(server):
    transport = apart(httpx)
    with httpx.Client(transport=transport) as client:
        for kind in ("batch", "interactive") * 3:
            get_as(kind, client, server.url)
        assert server.connections == 2
        pools = [inner._pool for inner in transport._transports.values()]
        assert [len(pool.connections) for pool in pools] == [1, 1]
    assert [pool.connections for pool in pools] == [[], []]


def test_a_pool_that_cant_be_closed_leaves_none_open():
    class Sticky(httpx.BaseTransport):
        def close(self):
            raise OSError("no")

    closed = []
    other = httpx.MockTransport(lambda request: httpx.Response(200))
    other.close = lambda: closed.append(True)
    with pytest.raises(OSError, match="no"):
        FairTransport(interactive=other, batch=Sticky()).close()
    with pytest.raises(OSError, match="no"), FairTransport(interactive=Sticky(), batch=other):
        pass
    assert closed == [True, True]


def test_one_transport_for_both_is_refused():
    shared = httpx.HTTPTransport()
    with pytest.raises(BadOption, match="batch=: expected another transport than interactive="):
        FairTransport(interactive=shared, batch=shared)


def test_whoever_asks_is_told_each_wait_and_may_fail(server, caplog):
    told = []

    def on_wait(kind, seconds):
        told.append(kind)
        raise ValueError("mine")

    with httpx.Client(transport=apart(httpx, on_wait=on_wait)) as client:
        assert get_as("batch", client, server.url).text == "ok"
    assert told == ["batch"]
    assert "on_wait of a FairTransport failed" in caplog.text


def test_prometheus_gets_a_histogram_by_kind(server):
    registry = CollectorRegistry()
    with httpx.Client(transport=apart(httpx, on_wait=wait_histogram(registry))) as client:
        get_as("batch", client, server.url)
    name, labels = "celery_fair_connection_wait_seconds_count", {"kind": "batch"}
    assert registry.get_sample_value(name, labels) == 1


def test_without_prometheus_client_the_cure_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"pip install 'celery-fair\[prometheus\]'"):
        wait_histogram()


# -- which kind it is -----------------------------------------------------------------------------


@pytest.fixture
def app():
    app = Celery("pools", broker="memory://", set_as_current=True)
    app.conf.task_always_eager = True
    yield app
    app.close()


def test_the_kind_is_the_running_tasks_unless_a_block_says_another(app):
    Fair(app)
    seen = []

    @fair_task
    def child():
        seen.append(current_kind())

    @fair_task(kind="batch")
    def parent():
        seen.append(current_kind())
        child()  # a call, not a task of its own
        with inherit_kind("interactive"):
            seen.append(current_kind())
        child.apply(kind="interactive")

    parent.delay()
    assert seen == ["batch", "batch", "interactive", "interactive"]


def test_outside_of_tasks_it_is_the_requests_and_else_the_default(app):
    Fair(app, default_kind="batch")
    assert current_kind() == "batch"
    with inherit_kind("interactive"):
        assert current_kind() == "interactive"


def test_without_a_fair_or_with_it_switched_off_the_declaration_still_counts(app):
    @fair_task(kind="batch")
    def task():
        return current_kind()

    assert current_kind() == "interactive"
    assert task.delay().get() == "batch"
    fair = Fair(app, enabled=False)
    assert task.delay().get() == "batch"
    fair.uninstall()


def test_the_page_of_the_docs_is_python():
    page = (Path(__file__).parents[3] / "docs" / "connection-pools.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        compile(textwrap.dedent(block).replace("…", "None"), "docs", "exec")
    for name in ("celery_fair_connection_wait_seconds", *ConnectionWaits.__dataclass_fields__):
        assert f"`{name}" in page
