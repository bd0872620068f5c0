"""The wiring: one step of the consumer's blueprint around a ``Scheduler``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps

import celery_fair.worker.control  # noqa: F401  registers `fair_status`, without the CLI too
from celery_fair.app import Fair
from celery_fair.worker.host import is_complete

if TYPE_CHECKING:
    from celery_fair.observe.prometheus import Endpoint
    from celery_fair.worker.job_keeping import JobKeeping
    from celery_fair.worker.scheduler import Scheduler


class FairStep(bootsteps.StartStopStep):
    """Made before ``Tasks`` starts, since its strategies look our hooks up; started after it."""

    label = "Fair"
    requires = ("celery.worker.consumer.tasks:Tasks",)

    scheduler: Scheduler
    keeping: JobKeeping
    endpoint: Endpoint | None = None

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        c.controller.fair = None
        fair = Fair.of(c.app)
        self.enabled = (
            fair is not None
            and fair.settings.enabled
            and is_complete(c.conninfo.transport.driver_type, c.pool)
        )
        if fair is not None and self.enabled:
            # Not before: the rest is made of what has just been looked up.
            from celery_fair.worker.job_keeping import JobKeeping
            from celery_fair.worker.scheduler import Scheduler

            self.scheduler = c.controller.fair = Scheduler(c, fair)
            self.keeping = JobKeeping(fair)

    def start(self, c: Any) -> None:
        from celery_fair.resources.uses import spare_this_thread
        from celery_fair.worker.startup import announce

        spare_this_thread()  # the loop's
        self.scheduler.connect()
        if not c.restart_count:
            announce(self.scheduler)
        self.keeping.start()
        if self.endpoint is None and self.scheduler.settings.metrics_port is not None:
            from celery_fair.worker.serving import serve_metrics

            self.endpoint = serve_metrics(self.scheduler)

    def register_with_event_loop(self, c: Any, hub: Any) -> None:
        self.scheduler.register_with_event_loop(hub)

    def stop(self, c: Any) -> None:
        self.scheduler.stop()

    def shutdown(self, c: Any) -> None:
        if self.endpoint is not None:
            self.endpoint.stop()
        self.keeping.stop()
        self.scheduler.shutdown()

    def info(self, c: Any) -> dict[str, Any]:
        from celery_fair.observe.facts import summary

        return {"fair": summary(self.scheduler)}


CONSUMER_STEPS = (FairStep,)
