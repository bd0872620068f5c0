"""What one worker records, while a setting or a command asks for it; the loop waits for nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from celery_fair.errors import SettingsError, StateAway
from celery_fair.record.folder import Folder, check_folder
from celery_fair.record.lines import Recorded, batch_of, digest_of, line_of, recorded
from celery_fair.record.stream import Stream
from celery_fair.state import Refused, State
from celery_fair.worker.outcomes import WITHDRAWN

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.worker.slots import Slot

logger = logging.getLogger(__name__)

REDIS: Final = "redis"
WATCHED_SECONDS: Final = 2.0
KEPT_SECONDS: Final = 10.0
"""From one writing to the next while a command reads, and else; what a kill -9 costs."""
ASKED_SECONDS: Final = 60.0
"""How long one word of `fair record` lasts."""
AT_ONCE: Final = 2_000
MOST: Final = 20_000
"""Runs in one batch, and of those that wait to be written: about 8 MB."""
STOP_SECONDS: Final = 2.0
MEGABYTE: Final = 1_000_000


class Target(Protocol):
    """Takes whole batches."""

    def write(self, batch: bytes) -> None:
        """Keep it, or raise."""


class Recording:
    """Taken note of at ticks, written by a thread that begins with the first that is asked.

    Raises `SettingsError` where the setting `record` names what can't be written.
    """

    def __init__(self, fair: Fair, worker: str) -> None:
        self._fair, self._worker = fair, worker
        self._life = f"{worker} {time.time_ns()}"
        self._waiting: deque[Recorded] = deque()
        self._uses: dict[str, tuple[str, ...]] = {}
        self._awake, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_until = float("-inf")
        self._since = time.time()
        self._warned = False
        self._batches = 0
        self.written = self.lost = self.failures = 0
        self.where: str | None = None
        """`REDIS`, or a folder; None while nothing is recorded."""
        self.sample = 1.0
        self._target: Target | None = None
        self._set = fair.settings.record
        if self._set is not None:
            self._open(self._set, fair.settings.record_sample)

    def _open(self, where: str, sample: float) -> None:
        limit = round(self._fair.settings.record_megabytes * MEGABYTE)
        if where == REDIS:
            state = State.of(self._fair, asks="record", without="what is recorded waits in memory")
            self._target = Stream(lambda: state, limit)
        else:
            check_folder(Path(where))
            self._target = Folder(Path(where), self._worker, limit)
        self._since = time.time()
        self.sample, self.where = sample, where

    def start(self) -> None:
        """Begin to write, if something is recorded: after the pool has forked."""
        if self.where is not None and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-recording", daemon=True
            )
            self._thread.start()

    def ask(self, seconds: float, sample: float) -> str | None:
        """Record into Redis for so long, 0 to end it; why that can't be, or None."""
        with self._lock:
            return self._ask(seconds, sample)

    def _ask(self, seconds: float, sample: float) -> str | None:
        if self._set is not None:
            self._asked_until = monotonic() + seconds
            self._awake.set()
            if self._set == REDIS:
                return None
            return f"the setting `record` has it record into {self._set}: use --from"
        if not seconds:
            self._asked_until = float("-inf")
            self._awake.set()
            return None
        if self.where is None:
            try:
                self._open(REDIS, sample)
            except SettingsError as error:
                return " ".join(error.problems)
        self.sample = sample
        self._asked_until = monotonic() + seconds
        self.start()
        return None

    def ended(self, slots: Sequence[Slot], to_epoch: float) -> None:
        """Take note of tasks that have left their slots, before these let go of their requests."""
        if self.where is None:
            return
        below, waiting = round(self.sample * 2**32), self._waiting
        for slot in slots:
            try:
                digest = digest_of(slot.request.id)
                if digest >= below or slot.outcome == WITHDRAWN:
                    continue
                if len(waiting) >= MOST:
                    self.lost += 1
                    continue
                waiting.append(recorded(slot, digest, to_epoch))
            except Exception:  # a publisher may send anything
                self.lost += 1
        if len(waiting) >= AT_ONCE:
            self._awake.set()

    def report(self) -> dict[str, Any]:
        """For the facts of the worker."""
        return {
            "where": self.where,
            "sample": self.sample if self.where is not None else None,
            "written": self.written,
            "lost": self.lost,
            "failures": self.failures,
        }

    def stop(self) -> None:
        """Write what there is, and end."""
        self._ended.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            is_watched = monotonic() < self._asked_until
            self._awake.wait(WATCHED_SECONDS if is_watched else KEPT_SECONDS)
            self._awake.clear()
            self._flush()
            with self._lock:
                if self._set is None and monotonic() >= self._asked_until:
                    self._end_asked()
                    return
        self._flush()

    def _end_asked(self) -> None:
        """Nobody asks any more: say until when, keep nothing; who asks next begins a thread."""
        if self._target is not None:
            self._write(self._target, self._note(), ())
            self._batches += 1
        self.where = self._target = self._thread = None
        self._waiting.clear()
        self._since = time.time()

    def _flush(self) -> None:
        """Write all that waits, batch by batch, up to one that can't be written."""
        target = self._target
        while target is not None:
            runs = list(islice(self._waiting, AT_ONCE))
            if not runs:
                return
            note = self._note()
            if not self._write(target, note, runs):
                return
            self._batches += 1
            self._since = note["until"]
            for _ in runs:
                self._waiting.popleft()
            if len(runs) < AT_ONCE:
                return

    def _note(self) -> dict[str, Any]:
        return {
            "batch": f"{self._life} {self._batches}",
            "worker": self._worker,
            "sample": self.sample,
            "since": round(self._since, 3),
            "until": round(time.time(), 3),
            "lost": self.lost,
        }

    def _write(self, target: Target, note: dict[str, Any], runs: Sequence[Recorded]) -> bool:
        """Whether to go on; what Redis refuses for what it is, is lost, and else nothing is."""
        try:
            target.write(batch_of(note, [line_of(run, self._used(run.task)) for run in runs]))
            self.written += len(runs)
            self._warned = False
        except Refused:
            self._failed("the state's Redis refuses them")
            self.lost += len(runs)
        except StateAway:  # which the state logs
            self.failures += 1
            return False
        except Exception as error:
            self._failed(error)
            return False
        return True

    def _used(self, task: str) -> tuple[str, ...]:
        found = self._uses.get(task)
        if found is None:
            fair = self._fair
            found = fair.resources.using.names_of(task, fair.registered(task))
            self._uses[task] = found
        return found

    def _failed(self, why: object) -> None:
        self.failures += 1
        if not self._warned:
            self._warned = True
            logger.warning(
                "celery-fair: what was recorded can't be written (%s): the next %d tasks wait in "
                "memory, and what comes then is lost",
                why,
                MOST,
            )
