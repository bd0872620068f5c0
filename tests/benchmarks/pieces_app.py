"""The ruler's tasks, batch ones in pieces of 0.1 s: what ``celery -A`` loads for `pieces`.

Contestants whose ``yields`` is true ask after each piece whether to make room.
"""

from __future__ import annotations

import os
import struct
import time

from celery import Celery
from celery.signals import worker_ready
from mixed_load.bodies import journal_path, register_sleepers
from mixed_load.contestant import BATCH_TASK, load_contestant
from mixed_load.journal import JournalWriter, drain_flag
from mixed_load.worker_app import BROKER_VARIABLE, CONTESTANT_VARIABLE

from celery_fair import Fair

PIECE_SECONDS = 0.1
PIECES_VARIABLE = "FAIR_BENCH_PIECES"

#: A moment (epoch seconds), and what it was the moment of.
MARK = struct.Struct("=dB")
PIECE_DONE, FLAG_SEEN = 1, 2


def register_pieces(app: Celery, journal: JournalWriter, yields: bool) -> None:
    """Have batch tasks work in pieces; a task's start is its first, its finish its last."""
    flag = drain_flag(journal_path())
    file = os.open(os.environ[PIECES_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    fair = Fair.of(app)

    def mark(what: int) -> None:
        os.write(file, MARK.pack(time.time(), what))

    @app.task(name=BATCH_TASK, shared=False)
    def batch(task_id: str, enqueued_at: float, service: float) -> None:
        done = fair.saved(0) if yields else 0
        if not done:
            journal.started("batch", task_id, enqueued_at, time.time())
        while done * PIECE_SECONDS < service and not flag.exists():
            time.sleep(PIECE_SECONDS)
            done += 1
            mark(PIECE_DONE)
            if yields and fair.should_yield():
                mark(FLAG_SEEN)
                fair.checkpoint(done)
        journal.finished(task_id, time.time())


if CONTESTANT_VARIABLE in os.environ:
    contestant = load_contestant(os.environ[CONTESTANT_VARIABLE])
    app = contestant.make_app(os.environ[BROKER_VARIABLE])
    _journal = JournalWriter(journal_path())
    register_sleepers(app, _journal, drain_flag(journal_path()))
    del app.tasks[BATCH_TASK]
    register_pieces(app, _journal, getattr(contestant, "yields", False))

    @worker_ready.connect(weak=False)
    def _report_ready(**_: object) -> None:
        _journal.ready()
