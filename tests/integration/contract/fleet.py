"""Some small workers on one broker, which together are a worker of that many slots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import PATIENCE_SECONDS, Site, ask
from tests.nodes.journal import VARIABLE, Journal
from tests.nodes.worker import WorkerProcess


class FleetSite(Site):
    """Workers of ``each`` slots that come and go; ``slots`` is those of the first ``size``."""

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        pool: str,
        size: int,
        *,
        each: int = 1,
        app: str = "tests.apps.mixed",
        **conf: object,
    ) -> None:
        journal = Journal(folder / "journal.jsonl")
        super().__init__(
            mixed.make_app(broker, **conf), journal, pool, size * each, folder / "none"
        )
        self.broker = broker
        self.folder = folder
        self.each = each
        self._app_module = app
        self.workers: list[WorkerProcess] = []
        self._env = {VARIABLE: str(journal.path), "CELERY_CONF": json.dumps(conf)}
        self._started = 0

    def spawn(
        self,
        count: int = 1,
        *,
        hostname: str | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> list[WorkerProcess]:
        """Start so many workers at once, and wait until all are ready."""
        new = []
        for _ in range(count):
            self._started += 1
            worker = WorkerProcess(
                self._app_module,
                self.broker,
                self.folder / f"worker-{self._started}.log",
                pool=self.pool,
                concurrency=self.each,
                hostname=hostname or f"f{self._started}@test",
                env={**self._env, **(env or {})},
                **options,
            )
            self.workers.append(worker)
            new.append(worker.start(wait_ready=False))
        for worker in new:
            worker.wait_for(worker.is_ready, "being ready", timeout=90)
        return new

    def kill(self) -> WorkerProcess:
        """SIGKILL the youngest worker; it no longer counts among ``workers``."""
        worker = self.workers.pop()
        worker.kill()
        return worker

    def status(self, worker: WorkerProcess) -> dict[str, Any]:
        reply = ask(self.app, worker.hostname)
        assert reply is not None, f"{worker.hostname} does not answer"
        return reply

    def wait_fleet(self, size: int) -> None:
        """Wait until every worker counts so many in the fleet."""

        def counts() -> list[int]:
            return [self.status(worker)["fleet"]["workers"] for worker in self.workers]

        wait_until(
            lambda: set(counts()) == {size},
            lambda: f"{size} workers in the fleet, not {counts()}",
            timeout=PATIENCE_SECONDS,
            poll_seconds=0.2,
        )

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.close()
        self.app.close()
