"""Keeps the place of a task whose worker has died or stands still, in the process that runs it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from celery import signals

from celery_fair.errors import StateAway
from celery_fair.resources.store import RENEW_SECONDS, Ended, ResourceStore, Want
from celery_fair.worker.clearing.pulse import Pulse
from celery_fair.worker.clearing.waiting import LEASE, WANT

logger = logging.getLogger(__name__)

LATE_SECONDS: Final = 2 * RENEW_SECONDS
"""A worker that has renewed nothing for so long is not waited for: soon others would be given what
its children use."""


class Orphans:
    """Made by the worker before its pool forks; in each child, of the one task that it runs.

    A prefork child goes on with its task when its parent is killed, and so does what the task uses.
    The thread begins with the first task that has a place, and sleeps between two: a child pays two
    signals a task, and a look every two seconds while one runs.
    """

    def __init__(self, worker: str, store: Callable[[], ResourceStore], pulse: Pulse) -> None:
        self._worker = worker
        self._make_store = store
        self._pulse = pulse
        self._main = os.getpid()
        self._want: Want | None = None
        self._has_taken_over = False
        self._any = threading.Event()
        self._turning = threading.Lock()
        self._thread: threading.Thread | None = None
        self._store: ResourceStore | None = None

    def open(self) -> None:
        """Have the children told of each task as it begins and ends."""
        signals.task_prerun.connect(self._began, dispatch_uid=f"{__name__}.{id(self)}")
        signals.task_postrun.connect(self._ended, dispatch_uid=f"{__name__}.{id(self)}")

    def close(self) -> None:
        signals.task_prerun.disconnect(self._began, dispatch_uid=f"{__name__}.{id(self)}")
        signals.task_postrun.disconnect(self._ended, dispatch_uid=f"{__name__}.{id(self)}")

    def _began(self, task: Any = None, **_: Any) -> None:
        if os.getpid() == self._main:
            return
        info = task.request.delivery_info or {}
        lease = info.get(LEASE)
        if lease is None:
            return
        kind, uses, tokens = info[WANT]
        self._want, self._has_taken_over = Want(lease, kind, uses, tokens), False
        if self._thread is None:
            # Anew in each child: the parent's may be shut, by a thread that isn't here.
            self._any, self._turning = threading.Event(), threading.Lock()
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-orphan", daemon=True
            )
            self._thread.start()
        self._any.set()

    def _ended(self, **_: Any) -> None:
        want, self._want = self._want, None
        if want is None:
            return
        self._any.clear()
        with self._turning:  # a renewal that came after it would take the place once more
            if self._has_taken_over:
                self._turn([], [Ended(want.lease, began=True)])

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._any.wait()
            pause.wait(RENEW_SECONDS)
            self.look(monotonic())

    def look(self, now: float) -> None:
        """Renew the place, if nobody else does."""
        want = self._want
        if want is None:
            return
        if os.getppid() == self._main and now - self._pulse.at < LATE_SECONDS:
            return
        with self._turning:
            if self._want is want:
                self._has_taken_over = True
                self._turn([want], [])

    def _turn(self, running: list[Want], ended: list[Ended]) -> None:
        try:
            if self._store is None:
                self._store = self._make_store()
            self._store.turn(f"{self._worker}/{os.getpid()}", [], running, ended)
        except StateAway:
            pass  # nobody else can be given it either
        except Exception as error:
            logger.warning("celery-fair: the place of a running task is not kept (%r)", error)
