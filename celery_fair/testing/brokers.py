"""The broker of a test run: one that is given, a Redis of its own, or this process's memory."""

from __future__ import annotations

import importlib.util
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kombu.transport import memory

from celery_fair.demo.broker import start_broker
from celery_fair.demo.processes import Children
from celery_fair.errors import FairError
from celery_fair.internals import redis_by_kombu

POLL_SECONDS: Final = 0.01
MEMORY: Final = "memory"
TIMEOUT_SECONDS: Final = 5.0
BY_TLS: Final = ("rediss", "amqps", "sentinel")
OF_TLS: Final = ("broker_use_ssl", "redis_backend_use_ssl")


class NotEmpty(FairError):  # noqa: N818
    """A queue of the app holds messages: give the tests a broker that nobody else uses."""

    def __init__(self, queue: str, count: int, broker: str) -> None:
        super().__init__(
            f"expected an empty broker, and {queue} holds {count} messages on {broker}: "
            f"give CELERY_FAIR_TEST_BROKER one that only tests use"
        )


@dataclass(frozen=True, slots=True)
class TestBroker:
    """What a test's app is given; ``is_own`` where nobody else can have anything in it."""

    __test__ = False  # no class of tests

    name: str
    url: str
    is_own: bool
    backend: str = "cache+memory://"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reaches_processes(self) -> bool:
        """Whether a worker in a process of its own can use it."""
        return not self.url.startswith("memory:")

    def conf(self) -> dict[str, Any]:
        """The same as Celery's settings, for one test: on Redis its keys have a prefix.

        What the app's own settings say of its own broker besides, holds for no other one.
        """
        options, backend_options = dict(self.options), {}
        tls = {} if _scheme(self.url) in BY_TLS else dict.fromkeys(OF_TLS, False)
        if _is_redis(self.url):
            prefix = f"celery-fair-test-{uuid.uuid4().hex}:"
            options["global_keyprefix"] = backend_options["global_keyprefix"] = prefix
        return {
            **tls,
            "broker_url": self.url,
            "broker_read_url": None,
            "broker_write_url": None,
            "broker_transport_options": options,
            "result_backend": self.backend,
            "result_backend_transport_options": backend_options,
        }


def open_broker(url: str, children: Children) -> TestBroker:
    """Return the broker at ``url``; for ``""`` start a Redis, or a stand-in, if that can be."""
    if url and url != MEMORY:
        return TestBroker(_scheme(url), url, False, url if _is_redis(url) else "rpc://")
    if not url and _can_start_redis():
        started = start_broker(children)
        return TestBroker(started.name, started.url(0), True, started.url(0))
    return TestBroker(
        "memory (this process only)", "memory://", True, options={"polling_interval": POLL_SECONDS}
    )


def _scheme(url: str) -> str:
    return url.partition(":")[0]


def _is_redis(url: str) -> bool:
    return _scheme(url).partition("+")[0] in ("redis", "rediss", "sentinel")


def _can_start_redis() -> bool:
    has_client = importlib.util.find_spec("redis") is not None
    has_kombu_extra = importlib.util.find_spec("packaging") is not None
    has_server = shutil.which("redis-server") or importlib.util.find_spec("fakeredis")
    return has_client and has_kombu_extra and bool(has_server)


@contextmanager
def clean(broker: TestBroker, app: Any, queues: list[str]) -> Iterator[None]:
    """Begin with empty queues, and leave nothing behind: no message and no key."""
    if broker.url.startswith("memory:"):
        _forget_memory()
    elif not broker.is_own:
        _refuse_messages(broker, app, queues)
    try:
        yield
    finally:
        if broker.url.startswith("memory:"):
            _forget_memory()
        else:
            _purge(app, queues)


def _forget_memory() -> None:
    # kombu keeps queues and bindings of memory:// for the life of the process.
    memory.Transport.global_state.clear()
    memory.Channel.queues.clear()
    memory.Channel.events.clear()


def _refuse_messages(broker: TestBroker, app: Any, queues: list[str]) -> None:
    with app.connection_for_write() as connection:
        for queue in queues:
            count = _count(connection, queue)
            if count:
                raise NotEmpty(queue, count, connection.as_uri())


def _count(connection: Any, queue: str) -> int:
    try:
        with connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)
    except connection.channel_errors:  # 404: there is none yet, or (Redis) it is empty
        return 0


def _purge(app: Any, queues: list[str]) -> None:
    if _is_redis(app.conf.broker_url):
        _delete_keys(app)
        return
    with app.connection_for_write() as connection:
        for queue in queues:
            try:
                with connection.channel() as channel:
                    channel.queue_purge(queue)
            except connection.channel_errors:  # 404: the test has sent nothing of that kind
                continue


def _delete_keys(app: Any) -> None:
    """Delete all that has the test's prefix: messages, results, jobs, and what workers share."""
    client, prefix, close = redis_by_kombu(app.connection_for_write(), TIMEOUT_SECONDS, 1)
    try:
        for key in client.scan_iter(match=f"{prefix}*", count=1000) if prefix else ():
            client.unlink(key)
    finally:
        close()
