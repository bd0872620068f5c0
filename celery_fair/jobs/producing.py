"""Appends the items of a job to the store, no more than a bounded number ahead of what is done."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from celery_fair.errors import JobConflict, StateAway
from celery_fair.jobs import calls, conflicts, tickets
from celery_fair.jobs.items import encode, opened
from celery_fair.jobs.leases import leases
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.store import Appended

if TYPE_CHECKING:
    from celery_fair.jobs.jobs import Jobs

logger = logging.getLogger(__name__)

#: Items, and characters of them, that one step adds to the store.
BLOCK_ITEMS: Final = 500
BLOCK_TEXT: Final = 262_144

#: After this time what a slow source has given is added, however little it is.
BLOCK_SECONDS: Final = 0.5

#: Pauses while there is no room, or no store, double from the first to the longest.
FIRST_SECONDS: Final = 0.05
ROOM_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 5.0

#: Between tries to publish what the broker or a limit has refused; then the workers see to it.
PUBLISH_PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 16.0)

#: How a job that was paused for this begins to say so; submitting it again goes on.
ENDED_EARLY: Final = "its items ended early"

Answer = TypeVar("Answer")


class Producer:
    """Goes over the items of one job, in this thread (`run`) or in one of its own (`start`)."""

    def __init__(self, jobs: Jobs, plan: Plan, items: Any) -> None:
        self.error: BaseException | None = None
        self._jobs = jobs
        self._plan = plan
        self._items = items
        self._over = threading.Event()
        self._is_away = self._has_time = False
        #: What it does while it waits for room; where tasks run in this thread, it runs them.
        self.meanwhile: Callable[[float], None] = time.sleep

    # -- where it runs

    def start(self) -> None:
        """Go on in a thread; the interpreter waits for it at its end, as for a pool's futures.

        A job that ended with the script that submitted it would be half a job. Ctrl-C ends both.
        """
        self._has_time = True
        name = f"celery-fair-job-{self._plan.id}"
        threading.Thread(target=self._run_quietly, name=name, daemon=False).start()

    def wait(self, timeout: float | None = None) -> None:
        """Return once all is submitted; raises what the items raised, or `TimeoutError`."""
        if not self._over.wait(timeout):
            raise TimeoutError(f"job {self._plan.id} is still being submitted after {timeout:g} s")
        if self.error is not None:
            raise self.error

    def _run_quietly(self) -> None:
        try:
            self.run()
        except BaseException as error:
            logger.error(
                "celery-fair: job %s is not submitted whole: submit it again with the same id to "
                "go on",
                self._plan.id,
                exc_info=error,
            )

    # -- what it does

    def run(self) -> None:
        """Append everything, and close the job; raises what the items raise, and `JobConflict`."""
        try:
            with self._alive(), opened(self._items) as items:
                self._append_all(items)
        except BaseException as error:
            self.error = error
            if not isinstance(error, JobConflict):
                self._pause(error)
            raise
        finally:
            self._over.set()

    def _append_all(self, items: Iterator[Any]) -> None:
        # What is there already, of an earlier producer, is skipped.
        state = self._append(0, [])
        if state.submitted:  # while it was paused, its tickets ended
            self._grant()
        at = sum(1 for _ in islice(items, state.submitted))
        rest = enumerate(items, at)
        while not state.stop:
            # One is taken without room for it: only so can it be told that there is no other.
            texts = self._block(rest, state.room)
            if not texts:
                self._close(at)
                return
            state = self._append_block(at, texts)
            at += len(texts)

    def _block(self, rest: Iterator[tuple[int, Any]], room: int) -> list[str]:
        """Return the next items as JSON; none if there are no more."""
        texts: list[str] = []
        length, begun = 0, time.monotonic()
        for index, item in islice(rest, max(min(room, BLOCK_ITEMS), 1)):
            texts.append(encode(index, item))
            length += len(texts[-1])
            if length >= BLOCK_TEXT or time.monotonic() - begun >= BLOCK_SECONDS:
                break
        return texts

    def _append_block(self, first: int, texts: list[str]) -> Appended:
        """Append all of them; the store may take a part at a time."""
        state = self._append(first, texts)
        if state.submitted < first and not state.stop:
            raise conflicts.lost_items(self._plan.id, state.submitted, first)
        while state.submitted < first + len(texts) and not state.stop:
            self._grant()
            state = self._wait_for_room(state.submitted, state)
            state = self._append(state.submitted, texts[state.submitted - first :])
        self._grant()
        return state

    def _wait_for_room(self, at: int, state: Appended) -> Appended:
        pause = FIRST_SECONDS
        while state.room <= 0 and not state.stop:
            self.meanwhile(pause)
            pause = min(2 * pause, ROOM_SECONDS)
            state = self._append(at, [])
        return state

    # -- the store

    def _alive(self) -> AbstractContextManager[None]:
        """Tell the store now and then that this lives: a source may rest for long.

        Only in a thread of its own: what a call puts in by itself is there in a moment.
        """
        return leases.held(self._beat, lambda: None) if self._has_time else nullcontext()

    def _beat(self) -> bool:
        return not self._jobs.store.append(self._plan.id, 0, []).stop

    def _append(self, first: int, texts: list[str]) -> Appended:
        if self._has_time and _is_interrupted():
            raise KeyboardInterrupt
        return self._insist(lambda: self._jobs.store.append(self._plan.id, first, texts))

    def _close(self, total: int) -> None:
        due = self._insist(lambda: self._jobs.store.close(self._plan.id, total))
        if due:
            self._insist(lambda: calls.publish(self._jobs.fair, self._jobs.store, self._plan, due))

    def _grant(self) -> None:
        left = self._insist(lambda: tickets.grant(self._jobs.store, self._plan))
        left = self._publish(left)
        for pause in PUBLISH_PAUSES if self._has_time else ():
            if not left:
                return
            self.meanwhile(pause)
            left = self._publish(left)

    def _publish(self, left: Sequence[str]) -> Sequence[str]:
        """Of a list that is put in by the call itself, that was asked already."""
        return tickets.publish(self._jobs.fair, self._plan, left, let_in=not self._has_time)

    def _pause(self, error: BaseException) -> None:
        reason = f"{ENDED_EARLY}: {type(error).__name__}"
        try:
            self._jobs.store.pause(self._plan.id, reason)
        except Exception:  # then it only looks as one whose producer has died
            logger.debug("celery-fair: job %s was not paused", self._plan.id, exc_info=True)

    def _insist(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer, in a thread however long the store is away; says so once."""
        pause = FIRST_SECONDS
        while True:
            try:
                answer = ask()
            except StateAway:
                if not self._has_time:
                    raise
                if not self._is_away:
                    logger.warning("celery-fair: job %s waits for the state", self._plan.id)
                self._is_away = True
            else:
                self._is_away = False
                return answer
            time.sleep(pause)
            pause = min(2 * pause, AWAY_SECONDS)


def _is_interrupted() -> bool:
    """Whether Ctrl-C has ended the program, which now waits for this thread alone.

    Its traceback has been printed by then, and that is where Python leaves word of it.
    """
    is_over = not threading.main_thread().is_alive()
    return is_over and getattr(sys, "last_type", None) is KeyboardInterrupt
