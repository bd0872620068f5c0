"""Runs both sides, one after the other, on one broker."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from celery_fair.demo.apps import (
    ANSWER,
    BROKER_VARIABLE,
    JOURNAL_VARIABLE,
    SUMMARIZE,
    fair_app,
    plain_app,
)
from celery_fair.demo.broker import DemoBroker, start_broker
from celery_fair.demo.figures import JournalReader, Side
from celery_fair.demo.load import Load, Sending
from celery_fair.demo.processes import Children, ends_like_ctrl_c, own_environment
from celery_fair.policy.kinds import BATCH

PLAIN: Final = "plain Celery"
FAIR: Final = "celery-fair"
LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Contestant:
    """One app; what a worker of it is started with is the same for all."""

    name: str
    module: str
    make_app: Callable[[str], Any]


CONTESTANTS: Final = (
    Contestant(PLAIN, "celery_fair.demo.plain", plain_app),
    Contestant(FAIR, "celery_fair.demo.fair", fair_app),
)


class Watcher:
    """What is told of a run while it goes on; by itself it says nothing."""

    def broker_started(self, broker: DemoBroker) -> None:
        """The broker answers."""

    def side_starts(self, name: str) -> None:
        """The worker of this side is being started."""

    def side_goes_on(self, side: Side, elapsed_seconds: float) -> None:
        """Called some ten times a second."""


def run(load: Load, watcher: Watcher) -> tuple[DemoBroker, list[Side]]:
    """Measure both sides; whatever happens, no process and no file is left."""
    with (
        ends_like_ctrl_c(),
        own_environment(),
        tempfile.TemporaryDirectory(prefix="celery-fair-demo-") as folder,
        Children(Path(folder)) as children,
    ):
        broker = start_broker(children)
        watcher.broker_started(broker)
        sides = [
            _side(contestant, broker.url(database), load, children, watcher)
            for database, contestant in enumerate(CONTESTANTS)
        ]
    return broker, sides


def _side(
    contestant: Contestant, broker_url: str, load: Load, children: Children, watcher: Watcher
) -> Side:
    watcher.side_starts(contestant.name)
    path = children.folder / f"{contestant.module}.jsonl"
    journal = JournalReader(path)
    worker = children.start(
        f"the worker of {contestant.name}",
        _worker_command(contestant.module, load.slots),
        **{BROKER_VARIABLE: broker_url, JOURNAL_VARIABLE: str(path)},
    )
    worker.wait_for(lambda: any(entry["event"] == "ready" for entry in journal.new()), "worker")
    app = contestant.make_app(broker_url)
    try:
        return _measure(Side(contestant.name, load.seconds), app, load, journal, watcher)
    finally:
        app.close()
        children.stop(worker)


def _worker_command(module: str, slots: int) -> list[str]:
    # Mingling costs a second of each start, and a single worker has nobody to gossip with.
    quiet = ["--without-mingle", "--without-gossip", "-l", "WARNING"]
    return [
        sys.executable,
        "-m",
        "celery",
        "-A",
        module,
        "worker",
        "-c",
        str(slots),
        "-n",
        f"{module}@localhost",
        *quiet,
    ]


def _measure(side: Side, app: Any, load: Load, journal: JournalReader, watcher: Watcher) -> Side:
    to_send = load.schedule()[::-1]
    side.began_at = time.time()
    elapsed = 0.0
    while elapsed < load.seconds or (elapsed < load.end and not side.all_started):
        while to_send and to_send[-1].at <= elapsed:
            _send(app, to_send.pop(), side)
        for entry in journal.new():
            side.take(entry)
        watcher.side_goes_on(side, elapsed)
        next_at = min(to_send[-1].at if to_send else load.end, elapsed + LOOK_SECONDS)
        time.sleep(max(side.began_at + next_at - time.time(), 0.0))
        elapsed = time.time() - side.began_at
    side.ended_at = time.time()
    for entry in journal.new():
        side.take(entry)
    watcher.side_goes_on(side, elapsed)
    return side


def _send(app: Any, sending: Sending, side: Side) -> None:
    now = time.time()
    name = SUMMARIZE if sending.kind == BATCH else ANSWER
    app.send_task(name, args=(sending.number, now, sending.run_seconds))
    if sending.kind == BATCH:
        side.batch_sent += sending.at <= side.seconds
    else:
        side.sent_at[sending.number] = now
