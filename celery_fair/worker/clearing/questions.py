"""Asks the hook, beside the loop: a few threads, a bounded time, and one answer a question."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from celery_fair.before import Admit, Answer, Delay, HeldTask, Refuse, Reroute

logger = logging.getLogger(__name__)

THREADS: Final = 4
"""Questions that are asked at once."""

STUCK: Final = 8
"""Threads beyond these that may hang in the hook: nothing can end a thread but itself."""


class Question:
    """One task that the hook is asked about; its first end is the one that counts."""

    __slots__ = ("about", "answer", "asked_at", "begun_at", "error", "has_ended", "subject")

    def __init__(self, subject: Any, about: HeldTask, now: float) -> None:
        self.subject = subject
        self.about = about
        self.asked_at = now
        self.begun_at: float | None = None
        self.answer: Answer | None = None
        self.error: str | None = None
        """Why there is no answer, in words."""
        self.has_ended = False


class Questions:
    """Called by the loop, which is woken when something has been answered."""

    def __init__(self, hook: Callable[[HeldTask], Any], seconds: float) -> None:
        self._hook = hook
        self._seconds = seconds
        self._todo: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._asked: dict[Question, None] = {}
        self._ended: deque[Question] = deque()
        self._threads = self._stuck = 0
        self._lock = threading.Lock()
        self._told = False
        self.wake: Callable[[], None] = lambda: None

    @property
    def stuck(self) -> int:
        """Threads that have overrun their time, and are in the hook still."""
        return self._stuck

    def ask(self, subject: Any, about: HeldTask) -> None:
        """Have the hook asked soon; the question is among those that have `ended` some day."""
        question = Question(subject, about, monotonic())
        self._asked[question] = None
        self._todo.put(question)
        with self._lock:
            if self._threads - self._stuck < min(THREADS, len(self._asked)):
                self._begin()

    def _begin(self) -> None:
        if self._threads < THREADS + STUCK:
            self._threads += 1
            threading.Thread(target=self._run, name="celery-fair-before", daemon=True).start()

    def ended(self) -> list[Question]:
        """Take those that have an answer, or will have none."""
        found = []
        while self._ended:
            question = self._ended.popleft()
            self._asked.pop(question, None)
            found.append(question)
        return found

    def look(self, now: float) -> None:
        """End what takes too long; also what would not be begun, with every thread stuck."""
        for question in list(self._asked):
            begun = question.begun_at
            if begun is not None and now - begun >= self._seconds:
                self._give_up(question, f"no answer within {self._seconds:g} s", hangs=True)
            elif begun is None and now - question.asked_at >= self._seconds and self._all_stuck:
                self._give_up(question, "every thread that asks hangs in it", hangs=False)

    @property
    def _all_stuck(self) -> bool:
        return self._stuck >= THREADS + STUCK

    def _give_up(self, question: Question, error: str, *, hangs: bool) -> None:
        with self._lock:
            if question.has_ended:
                return
            self._end(question, None, error)
            if hangs:
                self._stuck += 1
                if not self._todo.empty():
                    self._begin()

    def _end(self, question: Question, answer: Answer | None, error: str | None) -> None:
        question.answer, question.error, question.has_ended = answer, error, True
        self._ended.append(question)

    def stop(self) -> None:
        """Ask nothing more; what is asked now is answered in vain."""
        with self._lock:
            for _ in range(self._threads):
                self._todo.put(None)

    def _run(self) -> None:
        for question in iter(self._todo.get, None):
            with self._lock:
                if question.has_ended:
                    continue
                question.begun_at = monotonic()
            answer, error = self._ask(question)
            with self._lock:
                if question.has_ended:  # it was given up, and this thread counted as stuck
                    self._stuck -= 1
                    if self._threads - self._stuck > THREADS:
                        break
                    continue
                self._end(question, answer, error)
            self.wake()
        with self._lock:
            self._threads -= 1

    def _ask(self, question: Question) -> tuple[Answer | None, str | None]:
        try:
            answer = self._hook(question.about)
        except BaseException as error:  # SystemExit too: the thread must ask the next
            if not self._told:
                self._told = True
                logger.exception(
                    "celery-fair: before_batch has failed for %s[%s]; said once, the metrics count "
                    "the others",
                    question.about.name,
                    question.about.id,
                )
            return None, f"it raised {type(error).__name__}"
        if isinstance(answer, Admit | Delay | Reroute | Refuse):
            return answer, None
        return None, f"expected Admit, Delay, Reroute or Refuse, got {type(answer).__name__}"
