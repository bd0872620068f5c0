"""A worker's own metrics: its facts, read when somebody scrapes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from celery_fair.observe.facts import collect, tasks
from celery_fair.observe.reading import Source

if TYPE_CHECKING:
    from celery_fair.observe.prometheus import Endpoint
    from celery_fair.worker.scheduler import Scheduler

logger = logging.getLogger(__name__)

LOCK_SECONDS: Final = 0.1
"""For a reading between two ticks. Under solo the loop has the lock for as long as a task runs."""

CURE: Final = (
    "each worker of a host needs a port of its own, for instance by CELERY_FAIR__METRICS_PORT; or "
    "serve the metrics of all of them from one process, `celery -A … fair exporter`"
)


def serve_metrics(scheduler: Scheduler) -> Endpoint | None:
    """Serve them on the port of the settings; without the library, say so and go on."""
    settings = scheduler.settings
    if settings.metrics_port is None:
        return None
    try:
        from celery_fair.observe.prometheus import Endpoint, FairCollector, registry_of
    except ImportError as error:
        logger.error(
            "celery-fair: no metrics on port %d (%s): pip install 'celery-fair[prometheus]', or "
            "take metrics_port out of the settings",
            settings.metrics_port,
            error,
        )
        return None
    registry = registry_of(FairCollector(OwnSource(scheduler)))
    endpoint = Endpoint(registry, settings.metrics_host, settings.metrics_port, CURE)
    endpoint.start()
    return endpoint


class OwnSource:
    """The facts of this one worker; called by the endpoint's threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._failed = False

    def __call__(self) -> Mapping[str, Source]:
        """Its facts by its name; without any, and said once, if they can't be collected."""
        lock = self._scheduler.dispatcher.lock
        has_lock = lock.acquire(timeout=LOCK_SECONDS)
        try:
            source = Source(collect(self._scheduler, quantiles=False), tasks(self._scheduler))
            self._failed = False
        except Exception:
            if not self._failed:
                logger.exception("celery-fair: its facts can't be collected for the metrics")
            self._failed = True
            source = Source({}, ())
        finally:
            if has_lock:
                lock.release()
        return {self._scheduler.c.hostname: source}
