"""Looks now and then at what all workers share, for people and metrics; decides nothing."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery_fair.errors import SettingsError, StateAway
from celery_fair.observe.resources import resource_facts
from celery_fair.resources.store import ResourceView

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

SECONDS: Final = 5.0
JITTER: Final = (0.8, 1.2)

KNOWN_SECONDS: Final = 20.0
"""What is older says nothing of now."""


class ResourceViews:
    """A thread beside the loop, where a resource is set; none else."""

    def __init__(self, views: Callable[[], Sequence[ResourceView]], *, is_set: bool) -> None:
        self._views = views
        self._is_set = is_set
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._last: tuple[Sequence[ResourceView], float] | None = None
        self._told: set[str] = set()

    @classmethod
    def of(cls, fair: Fair) -> ResourceViews:
        """Of an app."""
        return cls(lambda: fair.resources.store.views(), is_set=fair.resources.is_set)

    def start(self) -> None:
        """Begin; once is enough."""
        if self._is_set and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-resource-views", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End, without waiting for a look that is under way."""
        self._ended.set()

    def report(self, now: float) -> dict[str, Any]:
        """The last look, as facts."""
        if self._last is None:
            return resource_facts(None, None, is_set=self._is_set)
        views, at = self._last
        fresh = now - at <= KNOWN_SECONDS
        return resource_facts(views if fresh else None, now - at, is_set=self._is_set)

    def look(self) -> None:
        """Ask once; what can't be asked is told as unknown when the last answer is too old."""
        try:
            self._last = self._views(), monotonic()
        except StateAway:  # those who need the places say so
            pass
        except SettingsError as error:
            self._say_once("SettingsError", str(error))
            self._ended.set()
        except Exception as error:
            self._say_once(type(error).__name__, str(error))

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(SECONDS * random.uniform(*JITTER))

    def _say_once(self, what: str, why: str) -> None:
        """By what it is: the words of one failure may differ each time."""
        if what not in self._told:
            self._told.add(what)
            logger.warning("celery-fair: resources can't be looked at (%s: %s)", what, why)
