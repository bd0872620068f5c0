"""A worker with celery-fair on one broker and pool, and what its journal says of the order."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from celery import Celery
from celery.contrib.testing.worker import start_worker

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.nodes.journal import VARIABLE, Entry, Journal
from tests.nodes.worker import WorkerProcess

PATIENCE_SECONDS = 40.0
REPLY_SECONDS = 10.0
QUESTIONS = 4
GATE = re.compile(r"^\[(\S+ \S+): .*celery-fair: gate (open|protected) ", re.MULTILINE)


def ask(app: Celery, hostname: str, command: str = "fair_status") -> dict[str, Any] | None:
    """One worker's reply to a remote control command, or None if it gives none in time.

    Asked again now and then: gevent and eventlet listen a moment after they say that they are
    ready, and what nobody listens to is lost.
    """
    for _ in range(QUESTIONS):
        replies = app.control.broadcast(
            command, reply=True, destination=[hostname], limit=1, timeout=REPLY_SECONDS / QUESTIONS
        )
        if replies:
            return replies[0][hostname]
    return None


def change_mode(app: Celery, hostname: str, mode: str) -> None:
    """Tell a worker to observe, or to enforce, and wait until it does."""
    order = {"setting": "mode", "value": mode}
    replies = app.control.broadcast(
        "fair_set", order, destination=[hostname], reply=True, limit=1, timeout=REPLY_SECONDS
    )
    assert "ok" in replies[0][hostname], replies
    wait_until(
        lambda: (ask(app, hostname) or {}).get("mode") == mode,
        f"{hostname} to be in mode {mode}",
        timeout=PATIENCE_SECONDS,
    )


def publish(app: Celery, name: str, labels: Iterable[str], *args: object, **options: Any) -> None:
    """Publish a task of ``tests.apps.mixed`` once for each label."""
    with app.producer_or_acquire() as producer:
        for label in labels:
            app.tasks[name].apply_async((label, *args), producer=producer, **options)


def labels(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def cut_workers(server: Any, broker: Broker) -> None:
    """Kill the workers' connections, as a failover would, and spare this process's."""
    database = int(broker.url.rsplit("/", 1)[1])
    ours = {connection.laddr.port for connection in psutil.Process().net_connections()}
    with server.client(database) as client:
        for one in client.client_list():
            if int(one["db"]) == database and int(one["addr"].rsplit(":", 1)[1]) not in ours:
                client.client_kill_filter(_id=one["id"])


# what a journal says


@dataclass(frozen=True)
class Run:
    """One execution of a task's body."""

    label: str
    kind: str
    started_at: float
    finished_at: float
    pid: int

    @property
    def seconds(self) -> float:
        return self.finished_at - self.started_at


def runs(entries: Iterable[Entry], prefix: str = "") -> list[Run]:
    """The executions that have ended, in the order of their starts."""
    begun: dict[tuple[str, str, int, int], Entry] = {}
    found = []
    for entry in entries:
        if not entry.label.startswith(prefix):
            continue
        key = (entry.task_id, entry.label, entry.pid, entry.thread)
        if entry.event == "start":
            begun[key] = entry
        elif key in begun:
            start = begun.pop(key)
            kind = "batch" if start.name.startswith("b.") else "interactive"
            found.append(Run(start.label, kind, start.at, entry.at, start.pid))
    return sorted(found, key=lambda run: run.started_at)


def running_at(done: Iterable[Run], at: float) -> int:
    """How many of these were running at that time."""
    return sum(run.started_at <= at < run.finished_at for run in done)


def seconds_within(done: Iterable[Run], begin: float, end: float) -> float:
    """How long these ran in that time, added up."""
    return sum(max(0.0, min(run.finished_at, end) - max(run.started_at, begin)) for run in done)


def most_at_once(done: list[Run]) -> int:
    """The largest number of executions that overlapped."""
    return max((running_at(done, run.started_at) for run in done), default=0)


def of_kind(done: Iterable[Run], kind: str) -> list[Run]:
    return [run for run in done if run.kind == kind]


# the worker


class Site:
    """One worker and the app to publish to it; restarted by name, ended by ``close``."""

    def __init__(
        self,
        app: Celery,
        journal: Journal,
        pool: str,
        slots: int,
        log: Path,
        worker: WorkerProcess | None = None,
    ) -> None:
        self.app = app
        self.journal = journal
        self.pool = pool
        self.slots = slots
        self.log = log
        self.worker = worker
        self.staged: tuple[Path, Path] | None = None
        self.polls = app.connection().transport.driver_type not in ("redis", "amqp")

    def publish(self, name: str, labels: Iterable[str], *args: object, **options: Any) -> None:
        publish(self.app, name, labels, *args, **options)
        if self.staged is not None:
            source, target = self.staged
            for file in source.iterdir():
                file.rename(target / file.name)

    def entries(self, prefix: str) -> list[Entry]:
        return [entry for entry in self.journal.entries() if entry.label.startswith(prefix)]

    def runs(self, prefix: str) -> list[Run]:
        return runs(self.journal.entries(), prefix)

    def wait_finished(self, prefix: str, count: int) -> list[Run]:
        """Wait until so many tasks of this prefix have ended; all of their executions."""

        def enough() -> bool:
            return sum(entry.event == "finish" for entry in self.entries(prefix)) >= count

        wait_until(
            enough,
            lambda: f"{count} × {prefix!r} to finish; the journal says:\n{self.journal.text()}",
            timeout=PATIENCE_SECONDS,
        )
        return self.runs(prefix)

    def wait_running(self, prefix: str, count: int) -> None:
        """Wait until so many tasks of this prefix are running at once."""

        def enough() -> bool:
            return sum(label.startswith(prefix) for label in self.journal.running()) >= count

        wait_until(
            enough,
            lambda: f"{count} × {prefix!r} to run; the journal says:\n{self.journal.text()}",
            timeout=PATIENCE_SECONDS,
        )

    def wait_logged(self, text: str, *, after: int = 0) -> None:
        """Wait until the worker has logged ``text`` behind this offset of its log."""
        wait_until(
            lambda: text in self.log_text()[after:],
            lambda: f"the log to say {text!r}; it says:\n{self.log_text()[after:]}",
            timeout=PATIENCE_SECONDS,
        )

    def wait_open(self) -> None:
        """Wait until the gate, as logged last, is open."""
        wait_until(
            lambda: "protected" not in [to for _, to in GATE.findall(self.log_text())][-1:],
            "an open gate",
            timeout=PATIENCE_SECONDS,
        )

    def protected(self, after: int) -> list[tuple[float, float]]:
        """From when to when the gate was protected, as logged behind this offset of the log."""
        changes = GATE.findall(self.log_text()[after:])
        times = [
            (datetime.fromisoformat(at.replace(",", ".")).timestamp(), to) for at, to in changes
        ]
        ends = [at for at, to in times if to == "open"]
        return [
            (at, next((end for end in ends if end >= at), math.inf))
            for at, to in times
            if to == "protected"
        ]

    def log_text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def hostname(self) -> str:
        """The name of the worker's node."""
        if self.worker is not None:
            return self.worker.hostname
        return next(iter(self.app.control.ping(timeout=REPLY_SECONDS, limit=1)[0]))

    def change_mode(self, mode: str) -> None:
        change_mode(self.app, self.hostname, mode)

    def at_rest(self) -> dict[str, Any] | None:
        """What the worker says of itself, once it holds and runs nothing."""
        report = ask(self.app, self.hostname)
        if report is None or any(k["running"] or k["held"] for k in report["kinds"].values()):
            return None
        return report

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """The worker is asked to stop, and is started again after the block."""
        assert self.worker is not None
        assert self.worker.stop(PATIENCE_SECONDS) == 0
        yield
        self.worker.start()

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.app.close()


@contextlib.contextmanager
def memory_site(
    broker: Broker, folder: Path, slots: int, set_variable: Callable[[str, str], None]
) -> Iterator[Site]:
    """A threads worker inside this process, for the transport that knows no other."""
    journal, log = Journal(folder / "journal.jsonl"), folder / "worker.log"
    set_variable(VARIABLE, str(journal.path))
    app = mixed.make_app(broker)
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter("[%(asctime)s: %(levelname)s] %(message)s"))
    ours = logging.getLogger("celery_fair")
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        with start_worker(
            app, pool="threads", concurrency=slots, perform_ping_check=False, shutdown_timeout=30
        ):
            yield Site(app, journal, "threads", slots, log)
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
        handler.close()
        app.close()


def process_site(
    app_module: str,
    broker: Broker,
    folder: Path,
    *,
    pool: str,
    slots: int,
    settings: dict[str, object],
    conf: dict[str, object],
) -> Site:
    """A worker process, ready, with these settings of celery-fair and of Celery."""
    journal, log = Journal(folder / "journal.jsonl"), folder / "worker.log"
    env = {f"CELERY_FAIR__{name.upper()}": json.dumps(value) for name, value in settings.items()}
    env |= {VARIABLE: str(journal.path), "CELERY_CONF": json.dumps(conf)}
    worker = WorkerProcess(app_module, broker, log, pool=pool, concurrency=slots, env=env)
    staged = _staged(broker, folder) if broker.name == "filesystem" else None
    if staged is not None:
        options = {**broker.transport_options, "data_folder_out": str(staged[0])}
        broker = replace(broker, transport_options=options)
    site = Site(mixed.make_app(broker, **conf), journal, pool, slots, log, worker)
    site.staged = staged
    try:
        worker.start()
    except BaseException:
        site.close()
        raise
    return site


def _staged(broker: Broker, folder: Path) -> tuple[Path, Path]:
    """Where to publish to, and where to move it: kombu reads files that are still being written."""
    source = folder / "staged"
    source.mkdir()
    return source, Path(str(broker.transport_options["data_folder_in"]))
