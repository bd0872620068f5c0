"""The probes: marked tasks that do nothing, or hold a slot for a given time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.bench.replies import CALLBACK, Replies
from celery_fair.errors import QueueFull
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.probe import NAME

HEADER: Final = "fair_bench"
"""Marks the messages, for whoever looks into the broker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is sent, where to, and for how long; times are in seconds."""

    seconds: float = 30.0
    patience_seconds: float = 10.0
    """How long is waited for the last ones; then those that wait still are let expire."""
    rate: float = 1.0
    """Probes of each kind a second."""
    most: int = 300
    """Probes of each kind."""
    run_seconds: float = 0.0
    """For how long each holds its slot; with 0, a task is sent that all workers have."""
    flood: int = 0
    """Batch tasks that are sent at the start, all at once."""
    flood_seconds: float = 0.5
    queues: Mapping[Kind, str] = field(default_factory=dict)
    """Where probes go, else where the app sends tasks of their kind."""

    @property
    def needs_probe_task(self) -> bool:
        """Whether workers must know the package's own task."""
        return self.run_seconds > 0 or self.flood > 0

    def moments(self) -> Iterator[tuple[float, Kind]]:
        """When to send which, from 0 on: at random, since what is regular may keep in step."""
        every = 1.0 / self.rate
        for number in range(min(self.most, int(self.seconds * self.rate))):
            at = sorted(every * (number + random.random()) for _ in KINDS)
            yield from zip(at, random.sample(KINDS, len(KINDS)), strict=True)


@dataclass(slots=True)
class Sent:
    """The probes of one kind, by id; when each was sent (monotonic)."""

    at: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    """By admission, as any other publish would have been."""


class Publisher:
    """Publishes over one connection, with no second attempt: a lost broker ends the bench."""

    def __init__(self, app: Any, connection: Any, replies: Replies, plan: Plan, mark: str) -> None:
        self.sent: dict[Kind, Sent] = {kind: Sent() for kind in KINDS}
        self.flood: list[str] = []
        self._app = app
        fair = Fair.of(app)
        self._fair = fair if fair is not None and fair.settings.enabled else None
        self._producer = app.amqp.Producer(connection, auto_declare=False)
        self._replies = replies
        self._plan = plan
        self._mark = mark
        self._end = monotonic() + plan.seconds + plan.patience_seconds

    def queue(self, kind: Kind) -> str:
        """Where tasks of that kind go."""
        if kind in self._plan.queues:
            return self._plan.queues[kind]
        if self._fair is not None:
            return self._fair.queues[kind][0]
        return str(self._app.conf.task_default_queue)

    def probe(self, kind: Kind) -> None:
        """Send one; raises what the broker's client raises."""
        seconds = self._plan.run_seconds
        try:
            at = monotonic()
            name, args = (NAME, (seconds,)) if seconds else (CALLBACK, ())
            self.sent[kind].at[self._send(kind, name, args, link=self._replies.callback())] = at
        except QueueFull:
            self.sent[kind].refused += 1

    def send_flood(self) -> None:
        """Send the backlog; none of it tells that it ran."""
        for _ in range(self._plan.flood):
            try:
                self.flood.append(self._send(BATCH, NAME, (self._plan.flood_seconds,)))
            except QueueFull:
                return

    def _send(self, kind: Kind, name: str, args: tuple[float, ...], **options: Any) -> str:
        left = max(self._end - monotonic(), 1.0)
        if self._fair is not None:
            options["kind"] = kind
        sent = self._app.send_task(
            name,
            args,
            queue=self.queue(kind),
            expires=left,
            # For RabbitMQ, which then drops what nobody has consumed.
            expiration=left,
            ignore_result=True,
            shadow=NAME,
            headers={HEADER: self._mark},
            retry=False,
            producer=self._producer,
            **options,
        )
        return str(sent.id)

    def unfinished(self) -> list[str]:
        """What may still wait somewhere."""
        probes = [probe for sent in self.sent.values() for probe in sent.at]
        return [one for one in probes if one not in self._replies.arrived] + self.flood
