"""A message in virtual time, and the streams that make them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from celery_fair.policy.kinds import Kind

Draw = Callable[[random.Random], float]
"""Draws a run time in seconds."""


class Task:
    """A message and what became of it; times are ``inf`` until they happen.

    ``left`` is what it still has to run: less than ``service`` once it has yielded. ``started`` is
    the latest start, ``waited_until`` the first.
    """

    __slots__ = (
        "endings", "ends_at", "finished", "kind", "left", "number", "published", "received",
        "service", "started", "tenant", "uses", "waited_until", "worker", "yields_every",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        kind: Kind,
        published: float,
        service: float,
        tenant: str | None = None,
        uses: tuple[str, ...] = (),
        yields_every: float = 0.0,
    ) -> None:
        self.number = number
        self.kind = kind
        self.published = published
        self.service = self.left = service
        self.tenant = tenant
        self.uses = uses
        self.yields_every = yields_every
        self.started = self.finished = self.received = self.waited_until = self.ends_at = math.inf
        self.worker: Any = None
        self.endings = 0

    @property
    def wait(self) -> float:
        """Seconds from publish to the first start, ``inf`` if there was none."""
        return self.waited_until - self.published


class Stream:
    """Makes the tasks of one origin, each as it is taken from the broker and not before.

    What waits is then a time of publishing, and a backlog of millions fits in memory. The run times
    come from the stream's own seed in the order of publishing, whatever the settings.
    """

    __slots__ = ("_draw", "_numbers", "_source", "early", "kind", "tenant", "uses", "yields_every")

    def __init__(
        self,
        kind: Kind,
        draw: Draw,
        source: random.Random,
        numbers: Iterator[int] | None = None,
        tenant: str | None = None,
        uses: tuple[str, ...] = (),
        yields_every: float = 0.0,
        early: int = 0,
    ) -> None:
        self.kind = kind
        self._draw = draw
        self._source = source
        self._numbers = count() if numbers is None else numbers
        self.tenant = tenant
        self.uses = uses
        self.yields_every = yields_every
        self.early = early
        """So many tasks are part done, so that the slots of an endless load are out of step."""

    def make(self, published: float) -> Task:
        """Return the next one, published then."""
        seconds = self._draw(self._source)
        if self.early:
            self.early -= 1
            seconds *= self._source.random()
        return Task(
            next(self._numbers), self.kind, published, seconds, self.tenant, self.uses,
            self.yields_every,
        )  # fmt: skip
