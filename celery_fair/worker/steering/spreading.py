"""How a worker learns orders that it has missed, and tells others what they have missed."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from celery_fair.steering import Orders

logger = logging.getLogger(__name__)

ASK_SECONDS: Final = 2.0
"""Between two questions of one worker, at least."""
ANSWER_SECONDS: Final = 1.0
"""Between two answers of one worker, at least: each is heard by all who asked meanwhile."""
SPREAD_SECONDS: Final = 0.01
"""Per member: over how long those spread their questions who hear of the same orders at once."""
MOST_SPREAD_SECONDS: Final = 10.0
TRIES: Final = 5
"""Questions about one version: one that doesn't come to be ours is of another language, or of one
that is cut off.
"""
RETRY_SECONDS: Final = 60.0
"""After so long such a version is asked for once more; of a large fleet by `RETRIES_A_SECOND`."""
RETRIES_A_SECOND: Final = 10.0

Publish = Callable[[str, Mapping[str, Any], "list[str] | None"], None]
"""A remote-control command, its arguments, and the workers that it is for; ``None``: for all."""


class Spreading:
    """Asks whoever has other orders, and answers so that all can hear.

    Each word of a member has the version of its document. Who hears of another one asks one of
    those who have it, by remote control, after a random time; the answer goes to all members, so
    that most of those who would have asked need not. (Floyd et al., "A reliable multicast framework
    for light-weight sessions", SIGCOMM 1995.) Where workers hear no words of each other, one that
    begins asks everybody.
    """

    def __init__(self, name: str, publish: Publish) -> None:
        self._name = name
        self._publish = publish
        self._versions: dict[str, str] = {}
        self._ask_at: float | None = None
        self._answer_at: float | None = None
        self._answered_at = self._asked_at = -ANSWER_SECONDS
        self._tried: dict[str, int] = {}
        self._retry_at = math.inf
        self._is_asked = self._was_told = self._asks_all = False

    def hear(self, versions: Mapping[str, str]) -> None:
        """These members have said which version their document is; nothing, if it is empty."""
        self._versions = {name: version for name, version in versions.items() if name != self._name}

    def asked(self) -> None:
        """Somebody wants to know the orders; called by a remote-control command."""
        self._is_asked = True

    def told(self) -> None:
        """All of the orders have come, as an answer to whoever has asked."""
        self._was_told = True

    def ask_all(self) -> None:
        """Nobody's words will tell: ask everybody."""
        self._asks_all = True

    def is_behind(self, orders: Orders) -> bool:
        """Whether somebody has orders that are not here yet."""
        return bool(self._ahead(orders))

    def tick(self, orders: Orders, now: float) -> None:
        """Ask and answer, where it is time to."""
        if self._asks_all:
            self._asks_all = False
            self._publish("fair_orders", {"ask": True}, None)
        self._answer(orders, now)
        self._ask(orders, now)

    def _answer(self, orders: Orders, now: float) -> None:
        if self._was_told and not self._is_asked and not self.is_behind(orders):
            self._answer_at = None  # another one has answered
        self._was_told = False
        if self._is_asked and self._answer_at is None and len(orders):
            wait = random.uniform(0.0, 0.2)
            self._answer_at = max(now + wait, self._answered_at + ANSWER_SECONDS)
        self._is_asked = False
        if self._answer_at is not None and now >= self._answer_at:
            self._answer_at, self._answered_at = None, now
            told = {"orders": [order.as_list() for order in orders], "counter": orders.counter}
            self._publish("fair_order", told, list(self._versions) or None)

    def _ask(self, orders: Orders, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = math.inf
            self._tried = {version: min(n, TRIES - 1) for version, n in self._tried.items()}
        ahead = self._ahead(orders)
        if not ahead:
            self._ask_at = None
            return
        if self._ask_at is None:
            spread = min(SPREAD_SECONDS * len(self._versions), MOST_SPREAD_SECONDS)
            self._ask_at = max(now + random.uniform(0.0, spread), self._asked_at + ASK_SECONDS)
        if now >= self._ask_at:
            self._ask_at, self._asked_at = None, now
            version = random.choice(sorted(set(ahead.values())))
            self._tried[version] = self._tried.get(version, 0) + 1
            self._forget_tries(ahead.values())
            retry = max(RETRY_SECONDS, len(self._versions) / RETRIES_A_SECOND)
            self._retry_at = now + retry * random.uniform(0.5, 1.0)
            node = random.choice([name for name, said in ahead.items() if said == version])
            self._publish("fair_orders", {"ask": True}, [node])

    def _ahead(self, orders: Orders) -> dict[str, str]:
        """Those whose orders are others, and not older."""
        own = str(orders.version)
        return {
            name: version
            for name, version in self._versions.items()
            if version
            and version != own
            and counter_of(version) >= orders.counter
            and self._tried.get(version, 0) < TRIES
        }

    def _forget_tries(self, versions: Iterable[str]) -> None:
        present = set(versions) | set(self._versions.values())
        self._tried = {version: n for version, n in self._tried.items() if version in present}


def counter_of(version: str) -> int:
    """The counter in a version as it is said; 0 for what is none."""
    number = version.partition(":")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 12 else 0
