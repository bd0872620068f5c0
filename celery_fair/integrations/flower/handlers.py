"""What Flower serves of ours. `BaseHandler` authenticates nothing: each method here asks for it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from time import monotonic
from typing import Any, Final

from flower.views import BaseHandler
from flower.views.monitor import Metrics
from prometheus_client import generate_latest
from tornado.web import StaticFileHandler, authenticated

from celery_fair.integrations.flower.jobs import Jobs
from celery_fair.integrations.flower.replays import Replays
from celery_fair.integrations.flower.store import Store
from celery_fair.integrations.flower.watching import Watching
from celery_fair.observe.prometheus import FairCollector, registry_of

STATIC: Final = Path(__file__).with_name("static")


class FairPage(BaseHandler):
    """The page, which asks `FairData` for all that it shows."""

    @authenticated
    def get(self) -> None:
        self.render(
            "fair.html",
            data_url=self.reverse_url("fair-data"),
            worker_url=self.reverse_url("worker", "NAME").removesuffix("NAME"),
            fair_file=self._file,
        )

    def _file(self, name: str) -> str:
        """Its address, with a digest: browsers keep it until it changes."""
        digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
        return f"{self.reverse_url('fair-static', name)}?v={digest}"


class FairData(BaseHandler):
    """The figures as JSON.

    No `BaseApiHandler`, which refuses everything where Flower runs without authentication.
    """

    def initialize(self, store: Store, watching: Watching, jobs: Jobs, replays: Replays) -> None:
        self._store = store
        self._watching = watching
        self._jobs = jobs
        self._replays = replays

    @authenticated
    async def get(self) -> None:
        app, now = self.application.capp, monotonic()
        self._watching.looked(app, now)
        jobs = self._jobs.picture(app, now)
        state = self.application.events.state
        alive = [name for name, worker in list(state.workers.items()) if worker.alive]
        replay = self._replays.picture(
            app, self._store.facts(now), self._store.without(alive, now), now
        )
        self.set_header("Cache-Control", "no-store")
        self.write({**await self._store.picture(alive), "jobs": jobs, "replay": replay})


class FairFile(BaseHandler, StaticFileHandler):
    """Style and script of the page."""

    @authenticated
    async def get(self, path: str, include_body: bool = True) -> None:  # type: ignore[override]
        await StaticFileHandler.get(self, path, include_body)

    @authenticated
    async def head(self, path: str) -> None:  # type: ignore[override]
        await StaticFileHandler.get(self, path, include_body=False)


class FairMetrics(Metrics):
    """Flower's own ``/metrics`` and the workers' after it, as open as Flower has it.

    A scrape counts as a look: one a minute keeps the figures a second old.
    """

    def initialize(self, store: Store, watching: Watching) -> None:
        self._store = store
        self._watching = watching

    async def get(self) -> Any:
        now = monotonic()
        self._watching.looked(self.application.capp, now)
        await super().get()
        sources = self._store.sources(now)
        registry = registry_of(FairCollector(lambda: sources))
        self.write(await self._store.apart(generate_latest, registry))
