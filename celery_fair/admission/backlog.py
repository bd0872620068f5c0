"""What waits at the broker, as one process knows it: one thread reads, the others use the value."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from celery_fair.policy.kinds import KINDS, Kind

if TYPE_CHECKING:
    from celery_fair.admission.rate import Workers
    from celery_fair.app import Fair
    from celery_fair.worker.links import Link

logger = logging.getLogger(__name__)

READ_SECONDS = 0.1
"""Between two readings: at most ten a second, however many publish."""
ANSWER_SECONDS = 0.5
"""How long a publisher waits for a reading; connecting, where it must, has as much again."""
CHOICE_SECONDS = 0.1
"""The same where nothing but the choice of a shard needs it: RabbitMQ answers for a queue behind
all that was published to it."""
READ_PART = 0.05
"""Of its time a publisher spends no more than this on lengths that nothing but a choice needs."""
OLD_SECONDS = 1.0
"""After this a reading says nothing more, and publishers wait for the next."""
BACKOFF_SECONDS = (0.5, 30.0)
SLOPE_SECONDS = 30.0
QUICK_SECONDS = 0.1
"""A failure that comes sooner is of a connection that was closed before, not of a broker away."""


class Reading(NamedTuple):
    """What waits by kind, and when it was counted, on this process's monotonic clock."""

    ready: dict[Kind, int]
    at: float
    lengths: Mapping[str, int] = MappingProxyType({})
    """By queue."""


class Backlog:
    """Messages ready in the queues of limited and of sharded kinds, plus those sent here since.

    And of limited kinds those that wait in workers for more than a slot, as of the workers' words.

    Between two readings the process counts its own, so that a burst can't overshoot by more than
    what the others publish meanwhile.
    """

    def __init__(
        self,
        fair: Fair,
        connect: Callable[[Fair], Link | None] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._fair = fair
        self._connect = _connect if connect is None else connect
        self._clock = clock
        self._is_unmeasurable = False
        self.reads = 0
        self._reset()

    def _reset(self) -> None:
        """Begin anew: a connection that a fork has copied is its parent's."""
        self._reading_lock = Lock()
        self._count_lock = Lock()
        self._link: Link | None = None
        self._workers: Workers | None = None
        self._last: Reading | None = None
        self._history: deque[Reading] = deque(maxlen=int(SLOPE_SECONDS / READ_SECONDS))
        self._since: Counter[Kind] = Counter()
        self._lengths: Counter[str] = Counter()
        """By queue, as far as is known: as last read, and what this process has sent since."""
        self._next_at = self._backoff = 0.0
        self._pid = os.getpid()  # last: until then another thread may find a lock of the parent's

    def _own(self) -> None:
        """Begin anew after a fork: a lock that a thread of the parent held stays shut here."""
        if self._pid != os.getpid():
            self._reset()

    def published(self, kind: Kind) -> None:
        """Count a message of this process, which the next reading will have found."""
        self._own()
        with self._count_lock:
            self._since[kind] += 1

    def sent(self, queue: str) -> None:
        """Count a message of this process in the queue that it was sent to."""
        self._own()
        with self._count_lock:
            self._lengths[queue] += 1

    def lengths(self, queues: Sequence[str]) -> list[int] | None:
        """How long each is, or None where that can't be known; waits for nobody else's reading.

        While they can't be read it is an estimate, of what was there and what was sent from here.
        """
        if self._is_unmeasurable:
            return None
        self._own()
        if self._clock() >= self._next_at:
            self._read_or_wait(0)
        return [self._lengths[queue] for queue in queues]

    def of(self, kind: Kind) -> int | None:
        """How many wait, or None where that isn't known; reads the broker if it is time to."""
        if self._is_unmeasurable:
            return None
        self._own()
        if self._clock() >= self._next_at:
            self._read_or_wait(ANSWER_SECONDS)
        last = self._last
        if last is None or self._clock() - last.at > OLD_SECONDS:
            return None
        return last.ready.get(kind, 0) + self._since[kind]

    def rate(self, kind: Kind) -> float | None:
        """How many tasks a second the workers can start, as far as they have told."""
        return None if self._workers is None else self._workers.rate(kind, self._clock())

    def slope(self, kind: Kind) -> float | None:
        """By how many a second it has become less of late; None where it hasn't."""
        history = [reading for reading in self._history if reading.at >= self._since_at()]
        if len(history) < 2:
            return None
        first, last = history[0], history[-1]
        seconds = last.at - first.at
        fallen = first.ready.get(kind, 0) - last.ready.get(kind, 0)
        return fallen / seconds if seconds > 0 and fallen > 0 else None

    def close(self) -> None:
        """Let go of the connection."""
        self._own()
        with self._reading_lock:
            self._let_go()

    def _since_at(self) -> float:
        return self._clock() - SLOPE_SECONDS

    def _read_or_wait(self, seconds: float) -> None:
        """Read, or let another thread's reading do; wait for that one only without a value."""
        last = self._last
        is_old = last is None or self._clock() - last.at > OLD_SECONDS
        if not self._reading_lock.acquire(timeout=seconds if is_old else 0):
            return
        try:
            if self._clock() >= self._next_at:
                self._read()
        finally:
            self._reading_lock.release()

    def _read(self) -> None:
        started = self._clock()
        with self._count_lock:
            before, lengths = self._since.copy(), self._lengths.copy()
        try:
            reading = self._reading()
        except Exception as error:
            self._failed(error)
            return
        if reading is None:
            return
        with self._count_lock:
            self._since.subtract(before)
            self._lengths = Counter(reading.lengths) + (self._lengths - lengths)
            self._last = reading
        # Not before there is a value: those who come meanwhile without one wait for it.
        self._next_at = started + self._pause(reading.at - started)
        self._history.append(self._last)
        if self._backoff:
            self._backoff = 0.0
            logger.info("celery-fair: the backlog can be read again")

    def _pause(self, seconds: float) -> float:
        """How long a reading is enough that took that long."""
        if self._fair.admission.limits:
            return READ_SECONDS
        return min(max(READ_SECONDS, seconds / READ_PART), OLD_SECONDS / 2)

    def _reading(self) -> Reading | None:
        """Ask once; and once more where a connection turns out to have been closed while idle."""
        kept, started = self._link is not None, self._clock()
        try:
            return self._ask()
        except BaseException as error:  # also a greenlet's timeout: its answer is still to come
            self._let_go()
            is_slow = self._clock() - started > QUICK_SECONDS
            if not isinstance(error, Exception) or not kept or is_slow:
                raise
        return self._ask()

    def _ask(self) -> Reading | None:
        if self._link is None:
            self._link = self._connect(self._fair)
            if self._link is None:
                self._is_unmeasurable = True
                logger.warning(
                    "celery-fair: this broker's queues can't be counted: no backlog is limited, "
                    "and shards take turns"
                )
                return None
        fair = self._fair
        asked = [
            kind for kind in KINDS if kind in fair.admission.limits or kind in fair.shards.hands
        ]
        queues = {kind: fair.queues_and_shards[kind] for kind in asked}
        self.reads += 1
        answer = self._answer([queue for kind in queues for queue in queues[kind]])
        if fair.admission.limits:
            self._hear(answer.members)
        now = self._clock()
        ready = {
            kind: sum(answer.ready.get(q, 0) for q in queues[kind]) + self._uncleared(kind, now)
            for kind in queues
        }
        return Reading(ready, now, answer.ready)

    def _uncleared(self, kind: Kind, now: float) -> int:
        return 0 if self._workers is None else self._workers.uncleared(kind, now)

    def _answer(self, queues: list[str]) -> Any:
        assert self._link is not None
        seconds = ANSWER_SECONDS if self._fair.admission.limits else CHOICE_SECONDS
        until = self._clock() + seconds
        answer = self._link.ask(queues, None)
        while answer is None:
            left = until - self._clock()
            if left <= 0:
                raise TimeoutError(f"no answer within {seconds:g} s")
            answer = self._link.receive(left)
        return answer

    def _hear(self, words: Any) -> None:
        if self._workers is None:
            from celery_fair.admission.rate import Workers

            self._workers = Workers(self._fair)
        assert self._link is not None
        now = self._clock()
        if self._workers.is_time_to_ask(now):
            words = {**words, **self._link.words()}
        self._workers.hear(words, now)

    def _failed(self, error: Exception) -> None:
        if not self._backoff:
            logger.warning(
                "celery-fair: the backlog can't be read (%s: %s): until it can be, everything is "
                "published, and shards are chosen by what was sent from here",
                type(error).__name__,
                error,
            )
        self._let_go()
        least, most = BACKOFF_SECONDS
        self._backoff = min(max(self._backoff * 2, least), most)
        self._next_at = self._clock() + self._backoff
        self._last = None
        with self._count_lock:
            self._since.clear()
            # What was there is worth less with each failure: they come ever later.
            self._lengths = Counter({q: n // 2 for q, n in self._lengths.items() if n > 1})

    def _let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None and self._pid == os.getpid():
            try:
                link.close()
            except Exception:  # it is of no use any more, whatever it says
                logger.debug("celery-fair: a connection could not be closed", exc_info=True)


def _connect(fair: Fair) -> Link | None:
    # Here, so that publishers without a limit never load the worker's parts.
    from celery_fair.worker.links import link_type

    with fair.app.connection_for_read() as connection:
        found = link_type(connection)
    return None if found is None else found(fair.app, listens_only=True)
