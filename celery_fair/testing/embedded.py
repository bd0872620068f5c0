"""A worker in a thread of the tests' process: what they patch and count is what it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from celery.contrib.testing.worker import TestWorkController, start_worker
from celery.worker import state

from celery_fair.errors import FairError

POOLS: Final = ("threads", "solo")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


class NotStarted(FairError):  # noqa: N818
    """The worker did not come up: its log, which pytest shows, says why."""


class StillRunning(FairError):  # noqa: N818
    """The test has ended, and a task has not: give it something that ends sooner to do."""

    def __init__(self, names: list[str]) -> None:
        tasks = ", ".join(names) or "a task"
        super().__init__(
            f"expected all tasks to end within {STOP_SECONDS:g} s of the test, and {tasks} still "
            f"runs: threads can't be killed; let the test's tasks be short, or use pool=\"prefork\""
        )


class EmbeddedWorker(TestWorkController):  # type: ignore[misc,unused-ignore]
    """Celery's embedded worker, which is waited for no longer than it may take."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.over = threading.Event()
        self._ready = threading.Event()
        self._then: Callable[[], None] = _nothing
        super().__init__(*args, **options)

    def start(self) -> None:
        try:
            super().start()
        finally:
            self.over.set()
            self._ready.set()
            self._then()

    def when_over(self, then: Callable[[], None]) -> None:
        """Have ``then`` called once it ends, which it shouldn't before its test does."""
        self._then = then
        if self.over.is_set():
            then()

    def how_ended(self) -> str:
        """Say that it has; nothing while it runs."""
        return "the worker has ended: its log says why" if self.over.is_set() else ""

    def on_consumer_ready(self, consumer: Any) -> None:
        super().on_consumer_ready(consumer)
        self._ready.set()

    def ensure_started(self) -> None:
        in_time = self._ready.wait(START_SECONDS)
        if not in_time or self.over.is_set():
            state.should_terminate = 0
            self.over.wait(STOP_SECONDS)
            state.should_terminate = None
            what = "ended at once" if in_time else f"was not ready in {START_SECONDS:g} s"
            raise NotStarted(f"the worker {what}: its log says why")


@contextmanager
def embedded(app: Any, hostname: str, pool: str, concurrency: int) -> Iterator[EmbeddedWorker]:
    """Start the worker; its end is a warm shutdown, so that no thread of a task outlives it."""
    with start_worker(
        app,
        concurrency=concurrency,
        pool=pool,
        hostname=hostname,
        perform_ping_check=False,
        shutdown_timeout=STOP_SECONDS,
        WorkController=EmbeddedWorker,
    ) as worker:
        try:
            yield worker
        finally:
            _stop(app, worker)


def _stop(app: Any, worker: EmbeddedWorker) -> None:
    state.should_stop = 0
    try:
        # A worker without an event loop looks up from its broker every two seconds, or if it must.
        app.control.broadcast("ping", destination=[worker.hostname])
        if not worker.over.wait(STOP_SECONDS):
            raise StillRunning(sorted({request.name for request in state.active_requests}))
    finally:
        state.should_stop = None


def _nothing() -> None:
    """Do nothing."""
