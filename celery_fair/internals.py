"""Private and version-dependent names of Celery and kombu that a publisher leans on.

Those that only a worker does are in `celery_fair.worker.internals`, which loads Celery's worker.
Read in Celery and kombu 5.5.0 to 5.7.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

from billiard import common
from celery.canvas import group
from kombu import Producer

BACKEND_MODULE: Final = "celery.backends.redis"

_GROUP: Final = getattr(getattr(group, "_apply_tasks", None), "__code__", None)


def publishes_group(frame: FrameType) -> bool:
    """Whether it is Celery's own code that publishes the parts of a group.

    Celery has no seam around a group. But it publishes one inside a block of
    ``app.producer_or_acquire``, opened by ``group._apply_tasks``, and nobody else opens one there.
    """
    return frame.f_code is _GROUP


def options_of_group(frame: FrameType) -> dict[str, Any]:
    """The options with which a group is published, of a frame that `publishes_group`."""
    return frame.f_locals.get("options") or {}


def is_told_to_end() -> bool:
    """Whether this process of a pool has got the signal by which billiard ends it.

    Its handler raises SystemExit in the midst of whatever runs: at a cold shutdown, for a revoke
    that terminates, and a tenth of a second before the SIGKILL of a hard time limit.
    """
    return bool(common._should_have_exited[0])


def trace_anew(task: Any, hostname: str) -> None:
    """Make the tracer of a task anew, which has taken its ``run`` as it was.

    As Celery's ``process_initializer`` of a pool's child makes it, and Celery's own way elsewhere.
    """
    from celery.app.trace import build_tracer  # not for those who only publish

    app = task.app
    task.__trace__ = build_tracer(task.name, task, app.loader, hostname, app=app)


ONCE_MORE: Final = {"max_retries": 1, "interval_start": 0.5}
"""How a command of remote control is sent again over a connection that was lost meanwhile."""


def ask_workers(app: Any, connection: Any, command: str, **options: Any) -> Any:
    """``app.control.broadcast`` over ``connection`` alone, which ends if the broker does.

    kombu's ``Mailbox`` sends over another connection than it is given, one of the app's pool, and
    makes that anew for as long as it takes. ``options`` are those of ``Mailbox._broadcast``.
    """
    mailbox = app.control.mailbox(connection)  # a copy
    mailbox.producer_pool = _OneProducer(connection)
    return mailbox._broadcast(command, **options)


class _OneProducer:
    """Stands where a ``Mailbox`` has its pool of producers."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextmanager
    def acquire(self) -> Iterator[Producer]:
        yield _BoundedProducer(self._connection.default_channel, auto_declare=False)


class _BoundedProducer(Producer):
    def publish(self, *args: Any, **options: Any) -> Any:
        return super().publish(*args, **{**options, "retry_policy": ONCE_MORE})


class Connected(NamedTuple):
    """A client of redis-py, the prefix of all keys, and how to let go of the two."""

    client: Any
    prefix: str
    close: Callable[[], None]


def is_redis_backend(backend: Any) -> bool:
    """Whether results are kept in a Redis, by Celery's own backend or a child of it."""
    return any(base.__module__ == BACKEND_MODULE for base in type(backend).__mro__)


def redis_by_kombu(connection: Any, timeout_seconds: float, at_once: int) -> Connected:
    """Connect through a channel of kombu's, whose pool knows all the ways to a Redis."""
    options = {**connection.transport_options, **_patience(at_once)}
    for name in ("socket_timeout", "socket_connect_timeout"):
        options[name] = min(options.get(name) or timeout_seconds, timeout_seconds)
    connection.transport_options = options
    try:
        # One try: kombu's own way in would sleep between two.
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        channel = connection.channel()
        client, prefix = _client(channel.pool), channel.global_keyprefix or ""
    except BaseException:
        connection.release()
        raise
    return Connected(client, prefix, connection.release)


def redis_by_backend(backend: Any, timeout_seconds: float, at_once: int) -> Connected:
    """Connect as Celery's result backend does, but with less patience."""
    params = dict(backend.connparams)
    for name in ("socket_timeout", "socket_connect_timeout"):
        if name in params:  # a Unix socket knows no connect timeout
            params[name] = min(params[name] or timeout_seconds, timeout_seconds)
    params.update(_patience(at_once))
    pool = backend._create_client(**params).connection_pool
    prefix = backend.task_keyprefix.decode().removesuffix(type(backend).task_keyprefix)
    return Connected(_client(pool), prefix, pool.disconnect)


def has_sentinel(client: Any) -> bool:
    """Whether a client of redis-py asks Sentinel for the master as it connects."""
    return hasattr(client.connection_pool, "get_master_address")


def follow_sentinel(client: Any) -> bool:
    """Have the pool of a client ask Sentinel for the master, and leave any other; whether it could.

    redis-py asks as it connects. A connection to a master that Sentinel has replaced stays, and is
    served, until that one is told: after some ten seconds, if it was replaced on demand.
    """
    try:
        client.connection_pool.get_master_address()
    except Exception:  # whatever it is, it is asked again
        return False
    return True


def _patience(at_once: int) -> dict[str, Any]:
    """Room for all calls that may be under way, whatever the team has set for its own use."""
    return {"retry_on_timeout": False, "max_connections": at_once + 2}


def _client(pool: Any) -> Any:
    import redis

    return redis.Redis(connection_pool=pool)


def forget_connections(app: Any) -> None:
    """Have an app connect anew, to what its settings name by now: broker and result backend.

    Celery makes each once. What was connected is closed with its last user. Results that are still
    in somebody's hands ask for nothing any more: their ``__del__`` would, of a server that is gone.
    """
    app._pool = None
    if "amqp" in vars(app):
        app.amqp._producer_pool = None
    consumer: Any = getattr(app._backend, "result_consumer", None)
    for name in ("_pubsub", "_consumer"):
        if getattr(consumer, name, None) is not None:  # rpc:// can't stop what was never started
            consumer.stop()
            setattr(consumer, name, None)
    app._backend_cache = None
    vars(app._local).pop("backend", None)


@contextmanager
def current_app_kept() -> Iterator[None]:
    """Have the current and the default app be the same ones after the block.

    A worker that is embedded in a process makes its app both, and forbids to wait for results.
    """
    from celery import _state

    current, default = _state._tls.current_app, _state.default_app
    blocks = _state.task_join_will_block()
    try:
        yield
    finally:
        _state._tls.current_app, _state.default_app = current, default
        _state._set_task_join_will_block(blocks)
