"""What Flower has heard of the workers' facts, and the picture that the page is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final, TypeVar

from celery_fair.integrations.flower.history import History
from celery_fair.integrations.flower.picture import Look, picture
from celery_fair.observe.cluster import WORKERS, Cluster
from celery_fair.observe.events import EVENTS_A_SECOND
from celery_fair.observe.reading import Source

SILENT_SECONDS: Final = 15.0
"""A worker that Flower knows for so long, and that has told no facts, has none to tell."""
FRESH_SECONDS: Final = 0.9
"""A picture this young is sent again: any number of viewers costs what one does."""

Made = TypeVar("Made")


class Store:
    """Lives in Flower's loop; bounded, whatever is published. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.cluster = Cluster()
        self.history = History(now)
        self._heard_at: float | None = None
        self._met_at: dict[str, float] = {}
        """Of those that have told no facts yet."""
        self._told: set[str] = set()
        self._picture: tuple[float, dict[str, Any]] | None = None
        self._thread = ThreadPoolExecutor(1, "celery-fair")

    def hear(self, event: Mapping[str, Any], now: float) -> None:
        """Take in an event of Flower's; never raises."""
        kind, name = event.get("type"), event.get("hostname")
        if not isinstance(kind, str) or not kind.startswith("worker-") or not isinstance(name, str):
            return
        self._meet(kind, name, now)
        before = self.cluster.workers.get(name)
        if not self.cluster.hear(event, now):
            return
        self._heard_at = now
        self._told.add(name)
        self._met_at.pop(name, None)
        if before is not None and before.is_alive(now):
            self._remember(before.facts, event["fair_facts"], now)

    def _meet(self, kind: str, name: str, now: float) -> None:
        if kind == "worker-online":  # perhaps of another kind than the one of that name before
            self._told.discard(name)
            self._met_at.pop(name, None)
        if name not in self._told and name not in self._met_at and len(self._met_at) < WORKERS:
            self._met_at[name] = now

    def _remember(self, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        try:
            self.history.add(before, after, now)
        except Exception:  # another version's facts, or nobody's
            self.cluster.unreadable += 1

    async def picture(self, alive: Iterable[str]) -> dict[str, Any]:
        """What the page shows; ``alive`` are the workers that Flower hears of."""
        now = monotonic()
        if self._picture is None or now - self._picture[0] >= FRESH_SECONDS:
            self._picture = now, await self.apart(picture, self.look(alive, now, time.time()))
        return self._picture[1]

    def apart(self, make: Callable[..., Made], *arguments: Any) -> asyncio.Future[Made]:
        """Make it in a thread: of a thousand workers it takes longer than a loop may stand still.

        Not one of Flower's threads, which may all be waiting for a lost broker.
        """
        return asyncio.get_running_loop().run_in_executor(self._thread, make, *arguments)

    def look(self, alive: Iterable[str], now: float, epoch: float) -> Look:
        """What is known now."""
        return Look(
            now,
            epoch,
            self.cluster.alive(now),
            self.history.waits(now),
            self.history.idle_slots(now),
            self.without(alive, now),
            None if self._heard_at is None else now - self._heard_at,
            self.cluster.unreadable,
        )

    def sources(self, now: float) -> dict[str, Source]:
        """What metrics are made of, copied: they are made in another thread."""
        return {
            name: Source(heard.facts, list(heard.tasks.values()))
            for name, heard in self.cluster.alive(now).items()
        }

    def facts(self, now: float) -> dict[str, Mapping[str, Any]]:
        """The facts of those who are alive."""
        return {name: heard.facts for name, heard in self.cluster.alive(now).items()}

    def without(self, alive: Iterable[str], now: float) -> list[str]:
        """Workers that tell no facts of ours, though they had the time to."""
        names = {str(name) for name in alive}
        self._told &= names | self.cluster.workers.keys()
        self._met_at = {name: at for name, at in self._met_at.items() if name in names}
        patience = SILENT_SECONDS + len(names) / EVENTS_A_SECOND
        return sorted(name for name, at in self._met_at.items() if now - at > patience)
