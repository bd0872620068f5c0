"""One run of the bench: look, send, listen, look again; and leave nothing behind."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Literal

from celery.exceptions import CeleryCommandException
from kombu.exceptions import OperationalError

from celery_fair.bench.probing import Plan, Publisher
from celery_fair.bench.recording import Look, Sampled
from celery_fair.bench.replies import Replies
from celery_fair.observe.listening import reach

Ask = Callable[..., Mapping[str, Any]]
"""``ask(command, **options)``: what each worker answers."""
Ended = Literal["complete", "interrupted", "broker lost"]

SAMPLE_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 0.1
LAST_SECONDS: Final = 1.0
"""How long an expired probe may yet have been on its way into a slot."""
IDS: Final = 500
"""In one word to the workers."""


class Bench:
    """What was looked at and sent. Whatever ends it early, what it has until then can be told."""

    def __init__(self, app: Any, plan: Plan, ask: Ask, before: Look) -> None:
        self.before = self.after = before
        self.ended: Ended = "complete"
        self.error: BaseException | None = None
        self.sampled = Sampled()
        self.replies = Replies(app)
        self.publisher: Publisher | None = None
        self.stopped_at = before.at
        self._app = app
        self._plan = plan
        self._ask = ask
        self._sampled_at = float("-inf")

    def run(self) -> None:
        """Send all, wait for the last; returns also if Ctrl-C or a lost broker ends it."""
        try:
            self._run()
        except KeyboardInterrupt:
            self.ended = "interrupted"
        except (OperationalError, OSError, CeleryCommandException) as error:
            self.ended, self.error = "broker lost", error  # the last one is of the one who asks
        finally:
            self.stopped_at = monotonic()
            with suppress(KeyboardInterrupt):  # a second one: be quick
                self._clean()

    def _run(self) -> None:
        with self._app.connection_for_write() as connection:
            reach(connection)
            self.replies.start()
            self.replies.started.wait()
            self._heard()
            mark = secrets.token_hex(4)
            self.publisher = Publisher(self._app, connection, self.replies, self._plan, mark)
            try:
                self._send(self.publisher)
            finally:
                with suppress(Exception):
                    self.after = self.look()
            self._wait_for_the_last(self.publisher)

    def _send(self, publisher: Publisher) -> None:
        publisher.send_flood()
        began = monotonic()
        for at, kind in self._plan.moments():
            self._idle_until(began + at)
            publisher.probe(kind)
        self._idle_until(began + self._plan.seconds)

    def _idle_until(self, moment: float) -> None:
        while (left := moment - monotonic()) > 0:
            self._heard()
            self._sample()
            time.sleep(max(min(left, WAIT_SECONDS), 0))

    def _wait_for_the_last(self, publisher: Publisher) -> None:
        end = monotonic() + self._plan.patience_seconds
        probes = {probe for sent in publisher.sent.values() for probe in sent.at}
        while monotonic() < end and not probes <= self.replies.arrived.keys():
            self._heard()
            time.sleep(WAIT_SECONDS)

    def _heard(self) -> None:
        if self.replies.error is not None:
            raise OperationalError(str(self.replies.error)) from self.replies.error

    def _sample(self) -> None:
        """Count what plain workers run; those with celery-fair count it themselves."""
        plain = list(self.before.stats)
        if not plain or monotonic() - self._sampled_at < SAMPLE_SECONDS:
            return
        self._sampled_at = monotonic()
        replies = self._ask("active", destination=plain, limit=len(plain), arguments={"safe": True})
        if self.publisher is not None:
            self.sampled.add(replies, [self.publisher.queue("batch")])

    def look(self) -> Look:
        """Ask those that had answered before."""
        return look(self._ask, len(self.before.reports) + len(self.before.stats))

    def _clean(self) -> None:
        """Have nobody run what still waits, and take the queue of replies away."""
        if self.publisher is not None and self.ended != "broker lost":
            left = self.publisher.unfinished()
            if left:
                with suppress(OperationalError, OSError):
                    for begin in range(0, len(left), IDS):
                        self._app.control.revoke(left[begin : begin + IDS])
                time.sleep(LAST_SECONDS)  # before nobody takes the word of those that run
        self.replies.stop()


def look(ask: Ask, limit: int | None = None) -> Look:
    """Ask all workers for what they have counted: facts, or Celery's own numbers."""
    at = monotonic()
    answers = ask("fair_status", limit=limit)
    reports = {
        node: reply
        for node, reply in answers.items()
        if isinstance(reply, Mapping) and "kinds" in reply
    }
    plain = [node for node in answers if node not in reports]
    stats = ask("stats", destination=plain, limit=len(plain)) if plain else {}
    return Look(at, reports, {node: one for node, one in stats.items() if isinstance(one, dict)})
