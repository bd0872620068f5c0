"""What the workers tell each other through the broker: how fast they are, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from celery_fair.front import without_parts
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.policy.pace import possible_rate
from celery_fair.worker.fleet import (
    FORGOTTEN_SECONDS,
    LOST_AFTER,
    MAX_NUMBER,
    MAX_WORD,
    digest,
)

if TYPE_CHECKING:
    from celery_fair.app import Fair

ASK_SECONDS = 0.5
"""A fleet's words are read this often at the most, and less often where there are many."""
HEARD_SECONDS = 2.0
"""A word may be so late and still in time, whoever reads."""
WORDS_A_SECOND = 100
SQUARES_A_SECOND = 10_000
MOST_QUEUES = 10
"""Up to so many, all choices that ``-Q`` can make of an app's queues are known."""

MOST_UNCLEARED = 10_000
"""A worker may have so many, whatever its word says: a few dozen are what it lets wait."""

Served = frozenset[Kind]


class Workers:
    """Adds up the capacity of those who serve the app's queues.

    A word has no clock, and Redis keeps the words of the dead: one counts from the moment at which
    it is seen to change. A word that says of other queues than the app knows is another app's.
    """

    def __init__(self, fair: Fair) -> None:
        self._share = fair.settings.batch_share
        self._served = _digests(fair)
        self._words: dict[str, str] = {}
        self._changed_at: dict[str, float] = {}
        self._alive: dict[str, tuple[float, Served, Mapping[str, Any]]] = {}
        self._asked_at: float | None = None

    @property
    def _every(self) -> float:
        return max(ASK_SECONDS, len(self._words) / WORDS_A_SECOND)

    @property
    def _patience(self) -> float:
        # The words of a large fleet come less often: as `worker.fleet` has it.
        said_every = len(self._words) ** 2 / SQUARES_A_SECOND
        return LOST_AFTER * max(HEARD_SECONDS, self._every, said_every)

    def is_time_to_ask(self, now: float) -> bool:
        """Whether the words that a broker keeps should be read again."""
        if self._asked_at is not None and now - self._asked_at < self._every:
            return False
        self._asked_at = now
        self._forget(now)
        return True

    def hear(self, words: Mapping[str, str], now: float) -> None:
        """Take in words by name; an empty one is a farewell."""
        for name, word in words.items():
            before = self._words.get(name)
            if word == before:
                continue
            self._words[name] = word
            self._changed_at[name] = now
            said = _parse(word) if before is not None else None
            served = self._served.get(said["queues"]) if said else None
            if said is not None and served:
                self._alive[name] = (now, served, said)
            else:
                self._alive.pop(name, None)

    def _forget(self, now: float) -> None:
        patience = max(FORGOTTEN_SECONDS, self._patience)
        for name in [name for name, at in self._changed_at.items() if now - at > patience]:
            for kept in (self._words, self._changed_at, self._alive):
                kept.pop(name, None)

    def rate(self, kind: Kind, now: float) -> float | None:
        """Tasks a second while both kinds want slots; None where no worker has told.

        Batch has its share guaranteed, and no more than that is left for sure.
        """
        members = [
            (served, said)
            for at, served, said in self._alive.values()
            if now - at <= self._patience and kind in served
        ]
        return possible_rate(
            (said["slots"] * self._part(kind, served), said[f"{kind}_mean_seconds"])
            for served, said in members
        )

    def uncleared(self, kind: Kind, now: float) -> int:
        """How many wait in them for more than a slot: ready at no broker, nor about to run."""
        return sum(
            said["uncleared"].get(kind, 0)
            for at, served, said in self._alive.values()
            if now - at <= self._patience and kind in served
        )

    def _part(self, kind: Kind, served: Served) -> float:
        if len(served) == 1:
            return 1.0
        return self._share if kind == BATCH else 1 - self._share


def _digests(fair: Fair) -> Mapping[str, Served]:
    """The kinds by the digest of the queues that serve them."""
    names = {*fair.queues[INTERACTIVE], *fair.queues[BATCH], *fair.app.amqp.queues}
    every = sorted(without_parts(names))
    sizes = range(1, len(every) + 1) if len(every) <= MOST_QUEUES else (1, 2, len(every))
    return {
        digest(names): frozenset(map(fair.kind_of_queue, names))
        for size in sizes
        for names in combinations(every, size)
    }


def _parse(word: str) -> Mapping[str, Any] | None:
    """What a word says, if it can be used; whoever reaches the broker can write one."""
    if len(word) > MAX_WORD:
        return None
    try:
        said = json.loads(word)
        numbers = [said[key] for key in ("slots", "interactive_mean_seconds", "batch_mean_seconds")]
        good = all(type(number) in (int, float) and 0 <= number < MAX_NUMBER for number in numbers)
        said["uncleared"] = {
            kind: min(max(int(count), 0), MOST_UNCLEARED)
            for kind, count in said.get("uncleared", {}).items()
        }
        return said if good and type(said["queues"]) is str else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
