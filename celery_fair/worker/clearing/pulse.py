"""A number that a worker's children read: when its leases were renewed last."""

from __future__ import annotations

import mmap


class Pulse:
    """Eight bytes that forked processes share. Monotonic seconds, which all of a host share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)
        self._at = memoryview(self._memory).cast("d")

    @property
    def at(self) -> float:
        """When it beat last; 0.0 before the first time."""
        return self._at[0]

    def beat(self, now: float) -> None:
        self._at[0] = now
