"""When a batch task runs again: exponential backoff, within a budget. `docs/retries.md` has why.

The budget is a token bucket that first attempts fill, as Finagle's ``RetryBudget`` (a fifth, and
some at least) and gRPC's retry throttling (gRFC A6): of what runs, retries are no more than a part.
"""

from __future__ import annotations

import math
import os
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, NamedTuple

#: Tokens that come by themselves in a minute, so that one failing task of a quiet worker is not
#: held up; and those that there are at the start.
FLOOR: Final = 10.0

#: For how long first attempts are remembered: a burst of retries is at most the budget of those.
MEMORY_SECONDS: Final = 60.0

#: 2 to the power of more than this is beyond every cap, and one day beyond every float.
MOST_DOUBLINGS: Final = 64


def backoff_seconds(base: float, retries: int, cap: float, random: Callable[[], float]) -> float:
    """Return the delay of the next retry, in seconds, after so many retries.

    ``base`` doubles with each retry until ``cap``, which is never under ``base``. Half of it is
    drawn (``random`` returns [0, 1)), "equal jitter" in Brooker, *Exponential Backoff And Jitter*
    (2015): tasks that failed together come back apart, and none at once, as with full jitter.
    """
    delay = min(base * 2.0 ** min(retries, MOST_DOUBLINGS), max(cap, base))
    return delay / 2 + random() * delay / 2


class Bucket(NamedTuple):
    """Tokens, of which a retry takes one; a value of a moment. Times in seconds, monotonic.

    Below zero, that many retries wait for tokens which are still to come.
    """

    tokens: float
    at: float
    since: float
    """When it was new."""
    recent: float = 0.0
    """Tokens a second that first attempts have brought, by an exponential average from nothing."""

    @property
    def income(self) -> float:
        """Tokens a second that are to be expected: a new average knows of its age only."""
        age = max(self.at - self.since, 1.0)
        return FLOOR / 60.0 - self.recent / math.expm1(-age / MEMORY_SECONDS)

    def fed(self, tokens: float, now: float) -> Bucket:
        """Return it after the time until ``now`` and so many tokens of first attempts."""
        elapsed = max(now - self.at, 0.0)
        recent = self.recent * math.exp(-elapsed / MEMORY_SECONDS) + tokens / MEMORY_SECONDS
        most = max(FLOOR, recent * MEMORY_SECONDS)
        left = min(self.tokens + FLOOR / 60.0 * elapsed + tokens, most)
        return Bucket(left, max(now, self.at), self.since, recent)

    def taken(self, now: float, delay: float, longest: float) -> tuple[Bucket, float | None]:
        """Return it without the token of a retry, and the delay of that.

        ``delay``, or until its token should have come; None if that is longer than ``longest``,
        and than ``delay``: too many wait for tokens already.
        """
        bucket = self.fed(0.0, now)
        missing = max(1.0 - bucket.tokens, 0.0)
        wait = missing / bucket.income
        if wait > max(delay, longest):
            return bucket, None
        return bucket._replace(tokens=bucket.tokens - 1.0), max(delay, wait)


class Counts(NamedTuple):
    """What a budget has come to."""

    tokens: float | None
    delayed: int
    refused: int


class RetryBudget:
    """The budget of one worker, shared by all its processes.

    A child that runs one task and ends would have a budget of none, or of as much as it wants; so
    the bucket lies in a file without a name, which children inherit. Its lock goes with a process
    that is killed. First attempts are counted where the worker counts them anyway, so that a task
    which doesn't retry costs nothing here.
    """

    _FORM: Final = struct.Struct("=ddddqq")

    def __init__(self, ratio: float, now: float) -> None:
        """Start with the floor's tokens; ``ratio`` is how many a first attempt brings."""
        self._ratio = ratio
        self._file = _shared_file()
        # Not sooner: a thread may be about to use it, and its number is given to the next file.
        weakref.finalize(self, os.close, self._file)
        self._threads, self._process = Lock(), os.getpid()
        self._write(Bucket(FLOOR, now, now), 0, 0)

    def started(self, attempts: int, now: float) -> None:
        """So many first attempts have been started."""
        with self._locked():
            bucket, delayed, refused = self._read()
            self._write(bucket.fed(self._ratio * attempts, now), delayed, refused)

    def take(self, now: float, delay: float, longest: float) -> float | None:
        """Return the delay of a retry, in seconds, or None if it is not to be made."""
        with self._locked():
            bucket, delayed, refused = self._read()
            bucket, granted = bucket.taken(now, delay, longest)
            refused += granted is None
            delayed += granted is not None and granted > delay
            self._write(bucket, delayed, refused)
        return granted

    def counts(self) -> Counts:
        """Return how many tokens there are, and what was asked of them."""
        with self._locked():
            bucket, delayed, refused = self._read()
        return Counts(bucket.tokens, delayed, refused)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl  # not on Windows, where no worker of ours runs

        if self._process != os.getpid():  # forked, perhaps while a thread held it
            self._threads, self._process = Lock(), os.getpid()
        with self._threads:  # a lock of the file is a process's, whatever its threads do
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _read(self) -> tuple[Bucket, int, int]:
        read = os.pread(self._file, self._FORM.size, 0)
        *bucket, delayed, refused = self._FORM.unpack(read)
        return Bucket(*bucket), delayed, refused

    def _write(self, bucket: Bucket, delayed: int, refused: int) -> None:
        os.pwrite(self._file, self._FORM.pack(*bucket, delayed, refused), 0)


def _shared_file() -> int:
    """A file without a name, and on Linux without a disk, which may be full or read-only."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("celery-fair-retries")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
