"""The runs of the tasks in a worker: called so that they may yield, and gone on with."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from celery.exceptions import Retry

from celery_fair.errors import RateLimited
from celery_fair.internals import trace_anew
from celery_fair.resources.refused import again, tell
from celery_fair.yielding.board import Board
from celery_fair.yielding.continuing import publish
from celery_fair.yielding.run import Run, running
from celery_fair.yielding.words import GaveWay, Yielding, is_news, ungrouped

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: The variable with the path of the board, for a pool's processes that are started anew.
BOARD: Final = "CELERY_FAIR_YIELD_BOARD"

#: The logger by which Celery tells how each task has ended.
TRACER: Final = "celery.app.trace"


class Runs:
    """The runs of one app's tasks in a worker, or in a child of one."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self.board: Board | None = None
        """Where this worker asks; None in all other processes, and where it only observes."""
        self.looks: Callable[[], bool] | None = None
        self.enabled = False
        self._called: list[tuple[Any, Callable[..., Any]]] = []

    def open(self, board: Board, looks: Callable[[], bool] | None = None) -> None:
        """This process is a worker: have its tasks called by way of `bounded`, before it forks.

        ``looks`` is for a worker that can't while a task runs: the task calls it, and is told
        whether to yield.
        """
        self.board, self.looks, self.enabled = board, looks, True
        for task in self._fair.app.tasks.values():
            if not hasattr(task.run, "fair_run"):
                self._called.append((task, task.run))
                task.run = self.bounded(task, task.run)
        logging.getLogger(TRACER).addFilter(is_news)

    @property
    def is_started_anew(self) -> bool:
        """Whether this is a process of a worker's pool that was not forked (``spawn``)."""
        return BOARD in os.environ and self.board is None

    def join(self, hostname: str) -> None:
        """Find the board in such a process, for which Celery has made its tracers already."""
        try:
            self.open(Board.at_path(os.environ[BOARD]))
        except OSError as error:
            logger.warning("celery-fair: nothing can be asked to yield here: %s", error)
            return
        for task in self._fair.app.tasks.values():
            trace_anew(task, hostname)

    def close(self) -> None:
        """The worker ends."""
        os.environ.pop(BOARD, None)
        self.enabled = False
        self.board = None
        while self._called:  # another worker in this process may be another Fair's
            task, run = self._called.pop()
            task.run = run
        logging.getLogger(TRACER).removeFilter(is_news)

    def call(self, task: Any, body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call ``body``, which does the work of a task's message in its stead, as one run."""
        return self.bounded(task, body)(*args, **kwargs)

    def bounded(self, task: Any, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return a task's function with the end of its yielding around it."""

        requests = task.request_stack

        @functools.wraps(body)
        def fair_run(*args: Any, **kwargs: Any) -> Any:
            request, around = requests.top, running.get()
            if request is None or (around is not None and around.request is request):
                return body(*args, **kwargs)  # ``run`` as a function: a part of what calls it
            run = Run(self, task, request)
            token = running.set(run)
            try:
                return self._run_through(run, body, args, kwargs)
            finally:
                running.reset(token)
                run.leave()

        fair_run.fair_run = True  # type: ignore[attr-defined]
        return fair_run

    def _run_through(self, run: Run, body: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call ``body`` until it ends, or yields: then publish its continuation, raise `GaveWay`.

        It has been left by then: its ``finally`` blocks have run, and a lock that it had is free.
        If publishing fails, it is called again here, with what it has saved: it keeps its slot, and
        goes on.
        """
        while True:
            try:
                result = body(*args, **kwargs)
                if run.cut_off is None:
                    return result
                yielding = run.cut_off
            except RateLimited as refused:
                raise again(self._fair, run.task, refused) from refused
            except BaseException as raised:
                if isinstance(raised, Retry) and isinstance(raised.exc, RateLimited):
                    tell(self._fair, raised.exc)
                found = ungrouped(raised)
                if isinstance(found, Yielding):
                    yielding = found
                elif found is raised:
                    raise
                else:
                    raise found from None
            if yielding.run is not run:
                raise yielding
            if publish(self._fair, run, yielding.saved):
                raise GaveWay from None
            run.go_on(yielding.saved)
