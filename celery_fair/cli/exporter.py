"""``celery -A proj fair exporter``: the metrics of all workers, from their events alone."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.remote import broker_url, connection_to_broker

if TYPE_CHECKING:
    from celery_fair.observe.counterfactual import Counterfactual
    from celery_fair.observe.listening import Listener
    from celery_fair.observe.metrics import Reach
    from celery_fair.observe.reading import Source
    from celery_fair.observe.replaying import Replaying

logger = logging.getLogger(__name__)

PORT: Final = 9541
LOOK_SECONDS: Final = 0.25


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    show_default=True,
    help="Where Prometheus finds /metrics.",
)
@click.option("--host", default="0.0.0.0", show_default=True, help="The address to answer on.")
@click.pass_obj
def exporter(obj: CLIContext, port: int, host: str) -> None:
    """Serve the metrics of all workers to Prometheus.

    They come from the workers' events, and it may run anywhere where the broker can be reached. It
    asks workers only in observe mode, each five minutes, for what a replay needs. docs/metrics.md
    lists them.

    Exit code: 0 when SIGTERM or SIGINT has ended it; 69 if the port can't be had, the transport has
    no events, or prometheus_client is missing.
    """
    obj.app.log.setup_logging_subsystem(loglevel=logging.INFO)
    with connection_to_broker(obj.app, reading=True) as connection:
        if not connection.supports_exchange_type("fanout"):
            raise CeleryCommandException(
                f"The transport of {broker_url(obj.app)} has no events: there give each worker a "
                f"metrics_port.",
                EX_UNAVAILABLE,
            )
    serve(obj.app, host, port, Ended())


class Ended:
    """True once the process was asked to end.

    A flag and no `threading.Event`: a handler that sets one while the main thread looks at it
    would wait for a lock that its own thread has.
    """

    def __init__(self) -> None:
        self._ended = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def _end(self, *_: Any) -> None:
        self._ended = True

    def __bool__(self) -> bool:
        return self._ended


def serve(app: Any, host: str, port: int, ended: Ended) -> None:
    """Listen to the workers and answer Prometheus until ``ended`` is true."""
    from celery_fair.observe.cluster import Cluster
    from celery_fair.observe.listening import Listener
    from celery_fair.observe.replaying import Replaying

    cluster = Cluster()
    listener = Listener(app, cluster)
    heard = Heard(listener, cluster)
    replaying = heard.replaying = Replaying(partial(_replay, app))
    server = _start_server(heard, host, port)
    listener.start()
    logger.info("celery-fair: metrics on http://%s:%d/metrics", host, port)
    try:
        while not ended:
            time.sleep(LOOK_SECONDS)
            heard.look()
            replaying.look(heard.modes(), monotonic())
    finally:
        listener.stop()
        server.server_close()


def _replay(app: Any) -> Counterfactual | None:
    """Ask all workers who observes, and replay what these have run."""
    from celery_fair.cli.overview import Answers
    from celery_fair.cli.remote import ask
    from celery_fair.cli.status_replay import replayed
    from celery_fair.observe.gathering import MOST_TASKS
    from celery_fair.observe.replaying import ANSWER_SECONDS

    answers = Answers.of(ask(app, "fair_status", timeout_seconds=ANSWER_SECONDS))
    return replayed(app, answers, MOST_TASKS, ANSWER_SECONDS)


def _start_server(heard: Heard, host: str, port: int) -> Any:
    try:
        from prometheus_client import start_http_server

        from celery_fair.observe.prometheus import FairCollector, registry_of
    except ImportError as error:
        raise CeleryCommandException(
            f"The exporter needs prometheus_client ({error}): "
            f"pip install 'celery-fair[prometheus]'",
            EX_UNAVAILABLE,
        ) from None
    registry = registry_of(FairCollector(heard.sources, heard.reach))
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except (OSError, ValueError) as error:
        raise CeleryCommandException(
            f"Port {port} of {host} can't be had ({getattr(error, 'strerror', None) or error}): "
            f"is another exporter running? --port and --host take others.",
            EX_UNAVAILABLE,
        ) from None
    return server


class Heard:
    """What the listener has heard, as the collector asks for it."""

    def __init__(self, listener: Listener, cluster: Any) -> None:
        self._listener = listener
        self._cluster = cluster
        self._was_lost = False
        self.replaying: Replaying | None = None

    def modes(self) -> set[str]:
        """In which the workers are that it hears."""
        alive = self._cluster.alive(monotonic())
        return {str(heard.facts.get("mode")) for heard in alive.values()}

    def sources(self) -> Mapping[str, Source]:
        """Facts and tasks of those who are alive."""
        from celery_fair.observe.reading import Source

        alive = self._cluster.alive(monotonic())
        return {
            name: Source(heard.facts, list(heard.tasks.values())) for name, heard in alive.items()
        }

    def reach(self) -> Reach:
        """How well it hears."""
        from celery_fair.observe.metrics import Reach

        now = monotonic()
        to_epoch = time.time() - now
        return Reach(
            connected=self._listener.is_connected,
            unreadable=self._cluster.unreadable,
            lost=self._cluster.lost,
            last_seen={
                name: heard.seen_at + to_epoch for name, heard in self._cluster.alive(now).items()
            },
            replayed={} if self.replaying is None else self.replaying.figures,
        )

    def look(self) -> None:
        """Say that the broker is back; that it is lost the listener says itself."""
        lost = self._listener.error is not None
        if self._was_lost and not lost:
            logger.info("celery-fair: the broker is back")
        self._was_lost = lost
