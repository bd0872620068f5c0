"""Reads what workers add to the stream, and asks them to go on, until it is time."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

from celery_fair.errors import StateAway
from celery_fair.record.recording import ASKED_SECONDS, WATCHED_SECONDS
from celery_fair.record.stream import last_place, read_on
from celery_fair.state import State

SAY_SECONDS: Final = ASKED_SECONDS / 3
LOOK_SECONDS: Final = 0.5
LAST_SECONDS: Final = WATCHED_SECONDS + 2.0
"""How long the workers' last batches are waited for."""
Ask = Callable[[float], None]
"""Has all workers record for so many seconds; 0 ends it."""


class Gathering:
    """Writes a raw file as it goes: what a kill leaves of it `fair record --from` reads."""

    def __init__(self, state: State, raw: Path, ask: Ask) -> None:
        self._state, self._raw, self._ask = state, raw, ask
        self._place = ""
        self.batches = 0

    def begin(self) -> None:
        """Find the end of the stream: what was recorded before is not of this time."""
        self._place = last_place(self._state)
        self._raw.write_bytes(b"")

    def run(self, seconds: float, has_ended: Callable[[], bool]) -> None:
        """Gather for so long, or until it is ended, and what comes in last."""
        until, said_at = monotonic() + seconds, monotonic()
        while not has_ended() and (now := monotonic()) < until:
            if now - said_at >= SAY_SECONDS:
                said_at = now
                self._ask(ASKED_SECONDS)
            self._read()
            time.sleep(min(LOOK_SECONDS, max(until - monotonic(), 0.0)))
        self._ask(0.0)
        until = monotonic() + LAST_SECONDS
        while monotonic() < until:
            self._read()
            time.sleep(LOOK_SECONDS)

    def _read(self) -> None:
        try:
            while entries := read_on(self._state, self._place):
                with self._raw.open("ab") as file:
                    for entry in entries:
                        file.write(gzip.compress(entry.batch))
                self._place = entries[-1].place
                self.batches += len(entries)
        except StateAway:  # the stream is there when it is back
            return
