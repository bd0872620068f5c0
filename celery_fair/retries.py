"""The budget of batch retries (`policy.retries`), shared by all processes of a worker."""

from __future__ import annotations

import os
import struct
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, NamedTuple

from celery_fair.policy.retries import FLOOR, Bucket


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
