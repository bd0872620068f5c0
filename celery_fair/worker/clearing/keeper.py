"""Asks the store of resources, beside the loop: for what waits here, and what runs here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from time import monotonic
from typing import Final

from celery_fair.errors import SettingsError, StateAway
from celery_fair.resources.store import RENEW_SECONDS, ResourceStore, Turn, Wait, Want
from celery_fair.worker.clearing.orphans import Orphans
from celery_fair.worker.clearing.outage import Outage
from celery_fair.worker.clearing.places import Places
from celery_fair.worker.clearing.pulse import Pulse

logger = logging.getLogger(__name__)

SOONEST_SECONDS: Final = 0.05
"""Between two turns that nothing has caused but the time that a store has named."""

WOKEN_SECONDS: Final = 5.0
STOP_SECONDS: Final = 1.0

BY_ITSELF: Final = (
    "interactive tasks go on within this worker's part of each limit, and batch within its share "
    "of that"
)


class Keeper:
    """Two threads, begun with the first task that uses something: one asks, one waits to be woken.

    What the loop wants is in `wants`, replaced whole; what it gets is in `places`. Whatever goes
    wrong, the first goes on: without it no lease would be renewed any more.
    """

    def __init__(
        self,
        worker: str,
        store: Callable[[], ResourceStore],
        places: Places,
        outage: Callable[[Sequence[Want]], Outage],
        wake: Callable[[], None],
        pulse: Pulse,
        orphans: Orphans,
    ) -> None:
        self.worker = worker
        self.wants: Sequence[Want] = ()
        self.waits: Mapping[str, Wait] = {}
        """Why the wants of the last turn aren't granted, by lease."""
        self.renewed_at = monotonic()
        """When the last turn began that was answered: all that is held was held then."""
        self.away_since: float | None = None
        self.outages = self.lost = self.turns = 0
        self.longest_turn_seconds = 0.0
        self._store = store
        self.places = places
        self._make_outage = outage
        self._outage: Outage | None = None
        self._wake = wake
        self._pulse = pulse
        self._orphans = orphans
        orphans.open()
        self._news = threading.Event()
        self._any = threading.Event()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._told: set[str] = set()
        self.has_answered = False
        """Whether the loop has something to take in."""
        self._forgotten = 0
        """How often all that was wanted has gone at once."""

    @property
    def is_away(self) -> bool:
        """Whether the store could not be asked the last time."""
        return self.away_since is not None

    @property
    def without(self) -> Set[str]:
        """Resources of which this worker has no place at all, as long as it can't ask."""
        outage = self._outage
        return frozenset() if outage is None else outage.without

    def ask(self) -> None:
        """Something has changed: take a turn soon."""
        if not self._threads and not self._ended.is_set():
            self._begin()
        self._news.set()

    def forget_wants(self) -> None:
        """All that wanted is gone; so what a turn under way still grants has nobody to use it."""
        self.wants = ()
        self._forgotten += 1

    def _begin(self) -> None:
        for name, run in (("asking", self._run), ("woken", self._wait_woken)):
            thread = threading.Thread(target=run, name=f"celery-fair-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """The worker ends, and all that ran in it has: tell the store, if it can be told."""
        self._orphans.close()
        self._ended.set()
        self._news.set()
        self._any.set()
        if not self._threads:
            return
        self._threads[0].join(STOP_SECONDS)  # the other may be in the midst of waiting
        self.wants = ()
        self.places.end_all()
        self._try(self.turn)
        if not self.is_away:
            self._try(lambda: self._store().leave(self.worker))

    # --- the thread that asks

    def _run(self) -> None:
        while not self._ended.is_set():
            self._news.wait(self._pause_seconds())
            self._news.clear()
            if not self._ended.is_set():
                self._try(self.turn)

    def _pause_seconds(self) -> float | None:
        """Until the next turn, if nothing happens; None while there is nothing to ask or renew."""
        if not self.wants and not self.places and not self.places.has_news:
            return None
        waits = [wait.seconds for wait in self.waits.values()]
        return min(max(min(waits, default=RENEW_SECONDS), SOONEST_SECONDS), RENEW_SECONDS)

    def turn(self) -> None:
        """Tell what runs and has ended, and ask for what is wanted."""
        places, forgotten = self.places, self._forgotten
        wants = [want for want in self.wants if want.lease not in places]
        places.sweep()
        running, ended = places.report()
        began = monotonic()
        try:
            answer = self._store().turn(self.worker, wants, running, ended)
        except Exception as error:  # one that can't be understood is as good as away
            self._tell(error)
            places.report_again(ended)
            answer = self._went_away(running).turn(self.worker, wants, running, ended)
        else:
            self._answered(began)
        self._settle(answer, wants)
        if forgotten != self._forgotten:  # nobody may look at the places until there is a broker
            for lease in answer.granted:
                places.end(lease, began=False)

    def _settle(self, answer: Turn, wants: Sequence[Want]) -> None:
        now, granted = monotonic(), frozenset(answer.granted)
        for want in wants:
            if want.lease in granted:
                self.places.grant(want, now)
        has_waits = not answer.waits.keys() <= self.waits.keys()
        self.waits = answer.waits
        if answer.lost:
            self.lost += self.places.lose(answer.lost)
        if any(want.lease not in granted for want in wants):
            self._any.set()
        else:
            self._any.clear()
        self.has_answered = True
        if granted or answer.lost or has_waits:
            self._wake()

    def _answered(self, began: float) -> None:
        self.turns += 1
        self.renewed_at = began
        self._pulse.beat(began)
        self.longest_turn_seconds = max(self.longest_turn_seconds, monotonic() - began)
        if self.away_since is not None:
            logger.info(
                "celery-fair: the store of resources answers again, after %.1f s: this worker asks "
                "it for each place",
                monotonic() - self.away_since,
            )
            self.away_since = self._outage = None

    def _went_away(self, running: Sequence[Want]) -> Outage:
        outage = self._outage
        if outage is None:
            outage = self._outage = self._make_outage(running)
            self.away_since = monotonic()
            self.outages += 1
            logger.warning(
                "celery-fair: the store of resources can't be asked: %s (docs/failure-modes.md)",
                BY_ITSELF,
            )
        return outage

    # --- the thread that is woken

    def _wait_woken(self) -> None:
        while not self._ended.is_set():
            self._any.wait()
            if self._ended.is_set():
                return
            if self.is_away or not self._try(self._woken):
                self._ended.wait(RENEW_SECONDS / 2)

    def _woken(self) -> None:
        try:
            if self._store().woken(self.worker, WOKEN_SECONDS):
                self._news.set()
        except StateAway:
            self._ended.wait(RENEW_SECONDS / 2)

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:
            self._tell(error)
            return False
        return True

    def _tell(self, error: Exception) -> None:
        """Log what isn't an outage, once of each kind."""
        what = type(error).__name__
        if not isinstance(error, StateAway | SettingsError) and what not in self._told:
            self._told.add(what)
            logger.exception("celery-fair: the store of resources was not asked")
