"""Has the hook of a team let batch tasks run, or not: ``before_batch``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from celery_fair.before import Admit, Answer, Delay, HeldTask, Refuse, Reroute
from celery_fair.errors import TaskRefused
from celery_fair.front import without_front
from celery_fair.headers import FairHeader
from celery_fair.observe.clearing import ANSWERS
from celery_fair.worker import internals
from celery_fair.worker.clearing.moving import Move, Moving, can_wait_at_broker
from celery_fair.worker.clearing.questions import Question, Questions
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.lanes import FAILING_LIMIT, Held, Lane

if TYPE_CHECKING:
    from celery_fair.worker.clearing.clearing import Clearing

logger = logging.getLogger(__name__)

OnError = Literal["admit", "delay", "refuse"]

AGAIN_SECONDS: Final = 10.0
"""After so long a task is asked about again for which there was no answer, or no way."""

MOST_MOVES: Final = 3
"""So often a message is sent to another queue: two hooks may each send it to the other's."""

STOP_SECONDS: Final = 1.0


class Hooking:
    """Acts on what the hook says of each batch task, and on what it fails to say.

    A task that waits for its answer is in its lane's room. It may leave it meanwhile: then the
    answer is nobody's.
    """

    def __init__(
        self,
        questions: Questions,
        moving: Moving,
        on_error: OnError,
        refuse: Callable[[Lane, Held, TaskRefused], None],
        hold_seconds: Callable[[], float],
        consumes: Callable[[str], bool] = lambda queue: True,
    ) -> None:
        self._questions = questions
        self._moving = moving
        self._on_error = on_error
        self._refuse = refuse
        self._hold_seconds = hold_seconds
        self._consumes = consumes
        self._delayed: dict[int, Waiting] = {}
        self.counts = dict.fromkeys(ANSWERS, 0)

    @property
    def stuck(self) -> int:
        """Threads that hang in the hook."""
        return self._questions.stuck

    @property
    def delayed(self) -> int:
        """Tasks that wait here for the end of a delay."""
        return len(self._delayed)

    def ask(self, waiting: Waiting) -> None:
        self._questions.ask(waiting, _held_task(waiting))

    def tick(self, clearing: Clearing, now: float) -> None:
        """Ask again about what was put off, and wait no longer for what hangs."""
        self._questions.look(now)
        for key, waiting in list(self._delayed.items()):
            if not _is_there(waiting):
                del self._delayed[key]
            elif waiting.not_before <= now and not clearing.is_paused(waiting):
                del self._delayed[key]
                self.ask(waiting)

    def settle(self, clearing: Clearing, now: float) -> None:
        """Act on the answers that have come."""
        for question in self._questions.ended():
            if _is_there(question.subject):
                self._act(clearing, question, now)
        for move in self._moving.done():
            self._moved(clearing, move, now)

    def _act(self, clearing: Clearing, question: Question, now: float) -> None:
        waiting: Waiting = question.subject
        answer, error = question.answer, question.error
        if answer is not None:
            error = _impossible(waiting, answer, self._consumes)
        if error is not None or answer is None:
            self.counts["failed"] += 1
            answer = self._instead(waiting, error or "no answer")
        waiting.said = _told(answer, error)
        if isinstance(answer, Admit):
            self.counts["admitted"] += 1
            waiting.asks_hook = False
            if waiting.uses:
                waiting.lane.line_up(waiting)
            else:
                clearing.clear(waiting, now)
        elif isinstance(answer, Delay):
            self.counts["delayed"] += 1
            self._delay(waiting, answer.seconds, now)
        elif isinstance(answer, Reroute):
            self.counts["rerouted"] += 1
            self._send(Move(waiting, answer.queue, 0.0), now)
        else:
            self.counts["refused"] += 1
            waiting.lane.take_uncleared([waiting], now)
            self._refuse(waiting.lane, waiting.held, TaskRefused(answer.reason))

    def _instead(self, waiting: Waiting, error: str) -> Answer:
        """What happens to a task about which the hook says nothing that can be done."""
        logger.debug("celery-fair: before_batch: %s: %s", waiting.request, error)
        if self._on_error == "admit":
            return Admit()
        if self._on_error == "refuse":
            return Refuse(f"before_batch: {error}")
        return Delay(AGAIN_SECONDS)

    def _delay(self, waiting: Waiting, seconds: float, now: float) -> None:
        """Here if that is short, and there is room for others beside it; else at the broker."""
        waiting.delays += 1
        lane = waiting.lane
        is_long = seconds > self._hold_seconds() or lane.is_blocked
        if is_long and lane.failing < FAILING_LIMIT and can_wait_at_broker(waiting.request):
            self._send(Move(waiting, None, seconds), now)
        else:
            self._wait_here(waiting, now + seconds, now)

    def _wait_here(self, waiting: Waiting, until: float, now: float) -> None:
        waiting.not_before = until
        self._delayed[waiting.key] = waiting
        waiting.lane.must_wait(waiting, now)

    def _send(self, move: Move, now: float) -> None:
        lane = move.waiting.lane
        lane.take_uncleared([move.waiting], now)
        lane.failing += 1
        self._moving.move(move)

    def _moved(self, clearing: Clearing, move: Move, now: float) -> None:
        waiting, lane = move.waiting, move.waiting.lane
        lane.failed(now)
        if not lane.alive:
            internals.forget_request(waiting.request)
        elif move.error is None:
            internals.settle_moved(waiting.request)
        else:
            logger.warning(
                "celery-fair: %s can't be sent on as before_batch wants (%s); it is asked again in "
                "%g s",
                waiting.request,
                move.error,
                AGAIN_SECONDS,
            )
            lane.put_off(waiting)
            self._wait_here(waiting, now + AGAIN_SECONDS, now)

    def stop(self) -> None:
        """The worker ends: whatever still waits is unacknowledged."""
        self._questions.stop()
        self._moving.stop(STOP_SECONDS)


def _is_there(waiting: Waiting) -> bool:
    return waiting.lane.alive and waiting.lane.uncleared.get(waiting.key) is waiting


def _impossible(waiting: Waiting, answer: Answer, consumes: Callable[[str], bool]) -> str | None:
    """Why an answer can't be acted on, if it can't.

    Where this worker doesn't consume the queue that a front would be of, it is the front of none:
    a queue of somebody's that is called so.
    """
    if not isinstance(answer, Reroute):
        return None
    queue = internals.queue_of(waiting.request) or ""
    if answer.queue == queue or (answer.queue == without_front(queue) and consumes(answer.queue)):
        return f"Reroute({answer.queue!r}) to the queue that it came by"
    header = FairHeader.read(internals.message_of(waiting.request).headers)
    if header is not None and header.rerouted >= MOST_MOVES:
        return f"Reroute({answer.queue!r}) after {MOST_MOVES} others"
    return None


def _told(answer: Answer, error: str | None) -> dict[str, Any]:
    """An answer as ``explain`` shows it."""
    said: dict[str, Any] = {"answer": type(answer).__name__.lower(), "at": time.time()}
    for name in ("seconds", "queue", "reason"):
        if hasattr(answer, name):
            said[name] = getattr(answer, name)
    return said if error is None else {**said, "error": error}


def _held_task(waiting: Waiting) -> HeldTask:
    request, held = waiting.request, waiting.held
    headers: Mapping[str, Any] = internals.message_of(request).headers
    header, retries = FairHeader.read(headers), headers.get("retries")
    since = held.ready_at if held.ready_at is not None else time.time()
    return HeldTask(
        name=request.task.name,
        id=request.id,
        args=request.args,
        kwargs=request.kwargs,
        tenant=header.tenant if header is not None else None,
        queue=internals.queue_of(request),
        waited_seconds=max(time.time() - since, 0.0),
        retries=retries if isinstance(retries, int) else 0,
    )
