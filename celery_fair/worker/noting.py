"""Tells the state how tasks get on, beside the loop, for as long as it takes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from itertools import islice

from celery_fair.errors import SettingsError
from celery_fair.state import Call, Refused, State, StateAway

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between two tries, while the state is away, and two looks, while there is no loop."""

MOST = 10_000
"""Notes that are kept through an outage. A request without its note is only run once more."""

AT_ONCE = 500
"""Notes in one round trip: an outage's must not hold up the Redis, which may be the broker."""


class Noting:
    """One thread, begun with the first note, and the notes that it has yet to deliver.

    Of one thing only the newest note counts. The loop never waits for it: a state that hangs would
    stop the worker for half a second each time. It also is the one that finds out that a state has
    come back, for as long as it has a note. Whatever goes wrong, the thread goes on: without it no
    lease would be renewed any more.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._notes: dict[Hashable, Call] = {}
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._look: Callable[[], None] | None = None
        self._has_none = False
        self._told: set[str] = set()

    def note(self, about: Hashable, call: Call) -> None:
        """Have it told soon; nothing where there is nobody to tell."""
        if self._has_none:
            return
        with self._lock:
            self._notes.pop(about, None)
            self._notes[about] = call
            self._trim()
        self._begin()

    def meanwhile(self, look: Callable[[], None] | None) -> None:
        """Call ``look`` about once a second, where no loop does it; None: no more."""
        self._look = look
        self._awake.set()

    def begin_to_look(self) -> None:
        """There is something to look at, if that is to be done here."""
        if self._look is not None:
            self._begin()

    def _begin(self) -> None:
        if self._thread is None and not self._ended.is_set():
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-noting", daemon=True
            )
            self._thread.start()
        self._awake.set()

    def flush(self) -> bool:
        """Tell what there is to tell, now; whether that has worked."""
        while True:
            with self._lock:
                notes = dict(islice(self._notes.items(), AT_ONCE))
                for about in notes:
                    del self._notes[about]
            if not notes:
                return True
            try:
                self._state().calls(notes.values(), insist=True)
            except Refused as refused:  # kept, it would come back for ever, and the others with it
                self._say_once("the state's Redis refuses a note", refused.__cause__ or refused)
            except SettingsError:  # of which the first marked message to start here tells
                self._has_none = True
                with self._lock:
                    self._notes.clear()
            except StateAway:
                with self._lock:
                    self._notes = {**notes, **self._notes}
                    self._trim()
                return False

    def stop(self, seconds: float) -> None:
        """End the thread; what comes after it is told by `flush` alone."""
        self._ended.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(seconds)
        self._try(self.flush)

    def _run(self) -> None:
        while not self._ended.is_set():
            look = self._look
            self._awake.wait(None if look is None else PAUSE_SECONDS)
            self._awake.clear()
            if look is not None:
                self._try(look)
            while not self._ended.is_set() and not self._try(self.flush):
                self._ended.wait(PAUSE_SECONDS)

    def _try(self, act: Callable[[], bool | None]) -> bool:
        """Do it; whether that has worked."""
        try:
            return bool(act())
        except Exception as error:
            self._say_once("the state can't be told how a task gets on", error)
            return False

    def _say_once(self, what: str, error: BaseException) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.warning("celery-fair: %s (%s: %s)", what, type(error).__name__, error)

    def _trim(self) -> None:
        for about in list(islice(self._notes, max(len(self._notes) - MOST, 0))):
            del self._notes[about]
