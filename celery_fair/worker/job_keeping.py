"""Looks after jobs, in each worker that has job tasks: whom a death or an outage has cut off."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from celery_fair.errors import JobNotFound, SettingsError, StateAway
from celery_fair.jobs import calls, tickets
from celery_fair.jobs.store import Due, JobStore
from celery_fair.jobs.task import way_of
from celery_fair.resources.uses import spare_this_thread

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: Between two looks, in seconds; drawn anew each time, so that workers don't look all at once.
SHORTEST_SECONDS: Final = 3.0
LONGEST_SECONDS: Final = 7.0

#: Tickets of one job that one look publishes.
AT_ONCE: Final = 100

STOP_SECONDS: Final = 1.0


class JobKeeping:
    """One thread beside the loop. It asks the store what is overdue, and publishes that.

    Every worker does, since any may die; the store gives each thing to one of them. It publishes by
    the app's own pool of connections, never by the loop's.
    """

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()
        self._left: dict[str, list[str]] = {}
        """Tickets by job that are not published yet: the store will not name them again so soon."""

    def start(self) -> None:
        """Begin, where there are job tasks and a place to keep jobs; once is enough."""
        if self._thread is not None:
            return
        tasks = [name for name, task in self._fair.app.tasks.items() if way_of(task)]
        if not tasks:
            return
        try:
            store = self._fair.jobs.store
        except SettingsError as error:
            logger.warning("celery-fair: jobs are not looked after in this worker: %s", error)
            return
        self._thread = threading.Thread(
            target=self._run, args=(store, tasks), name="celery-fair-jobs", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End; what it was about to publish stays due."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self, store: JobStore, tasks: list[str]) -> None:
        spare_this_thread()
        while not self._ended.wait(random.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)):
            try:
                self.look(store, tasks)
            except StateAway:  # which the state logs
                continue
            except Exception as error:
                self._left.clear()
                self._say_once(error)

    def look(self, store: JobStore, tasks: list[str]) -> None:
        """Publish what is overdue now, and what could not be when it was."""
        dues = {}
        for job, late, calls_due in store.overdue(tasks, AT_ONCE):
            dues[job] = calls_due
            self._left[job] = list(dict.fromkeys([*self._left.get(job, ()), *late]))
        for job in list(self._left):
            if self._ended.is_set():
                return
            try:
                self._publish(store, job, dues.get(job, ()))
            except JobNotFound:  # forgotten meanwhile
                self._left.pop(job, None)
            if job in self._left:  # what refuses one refuses the others, and each is logged
                return

    def _publish(self, store: JobStore, job: str, dues: Sequence[Due]) -> None:
        plan = store.plan(job)
        left = tickets.publish(self._fair, plan, self._left.pop(job), again=True)
        if left:
            self._left[job] = list(left)  # behind the others
        calls.publish(self._fair, store, plan, dues)

    def _say_once(self, error: Exception) -> None:
        what = type(error).__name__
        if what not in self._told:
            self._told.add(what)
            logger.warning("celery-fair: jobs can't be looked after (%s: %s)", what, error)
