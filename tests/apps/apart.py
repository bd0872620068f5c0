"""The app of ``tests.apps.mixed`` on workers whose sensors lose their connection when told to.

APART names a file: while it holds the worker's name, or an asterisk, the sensor's connection is
dead and no other can be made. All else of the worker goes on. NAIVE names a double below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from celery_fair.policy import Policy
from celery_fair.worker import holding, links
from tests.apps import mixed
from tests.brokers.broker import Broker

DOUBLES: dict[str, Callable[[], None]] = {}


def double(install: Callable[[], None]) -> Callable[[], None]:
    DOUBLES[install.__name__] = install
    return install


@double
def by_itself() -> None:
    """A worker that sees nobody takes itself for the whole."""

    def lose_sight(self, now, cut_off=False):
        self.see_fleet(None, now)
        self._place.in_sight = False

    Policy.lose_sight = lose_sight


@double
def last_view_for_good() -> None:
    """What the others said last stands until they say something else."""

    view, see_fleet, lost = Policy.view, Policy.see_fleet, set()

    def see(self, fleet, now):
        lost.discard(self)
        see_fleet(self, fleet, now)

    Policy.see_fleet = see
    Policy.lose_sight = lambda self, now, cut_off=False: lost.add(self)
    Policy.view = lambda self, now: replace(view(self, now), fleet_in_sight=self not in lost)


@double
def batch_at_once() -> None:
    """A worker that has just started runs what comes, before it knows of others."""
    Policy.listen = lambda self, listening, now: None


@double
def hold_what_came() -> None:
    """What a worker holds it keeps, also where another could run it."""
    holding.Holding.seconds = lambda self, others_free, fleet_reserve: 60.0


def is_apart() -> bool:
    path = Path(os.environ.get("APART") or os.devnull)
    names = path.read_text().split() if path.exists() else []
    return "*" in names or any(name in sys.argv for name in names)


def part(link: type[links.Link]) -> None:
    """Refuse what this link is asked, and a new one, while the worker is apart."""
    init, ask = link.__init__, link.ask

    def refusing_init(self, app):
        if is_apart():
            raise ConnectionError("apart")
        init(self, app)

    def refusing_ask(self, queues, member):
        if is_apart():
            raise ConnectionError("apart")
        return ask(self, queues, member)

    link.__init__, link.ask = refusing_init, refusing_ask


app = None
if "BROKER" in os.environ:
    for link in (links.RedisLink, links.AmqpLink):
        part(link)
    for name in os.environ.get("NAIVE", "").split():
        DOUBLES[name]()
    app = mixed.make_app(Broker.from_environ(os.environ))
