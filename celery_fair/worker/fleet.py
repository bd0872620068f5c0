"""The other workers that serve the same queues, as of their last word."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from celery_fair.front import without_parts
from celery_fair.policy import FleetView, Member, fleet_view
from celery_fair.policy.kinds import Kind

SAY_SECONDS = 1.0
MEMBERS_A_SECOND = 50
"""How many words a worker hears a second at the most: a larger fleet speaks less often."""
WORDS_A_SECOND = 50_000
"""How many words are heard a second in all, at the most; a link may bear fewer."""
LOST_AFTER = 4
"""Intervals of silence after which a member no longer counts."""
FORGOTTEN_SECONDS = 120.0
MAX_WORD = 4096
MAX_VERSION = 40
"""Characters of the version of a member's orders."""
MAX_NUMBER = 1e9
WHOLE_NUMBERS = ("slots", "running_interactive", "running_batch")
NUMBERS = tuple(
    (field.name, (int,) if field.name in WHOLE_NUMBERS else (int, float))
    for field in fields(Member)
    if field.name != "name"
)
"""The fields of a word that count, and the types that they may have."""
FRESH_SECONDS = 2.0
"""Words that come less often tell who is there; what runs has changed since."""
DECIMALS = 6


class Fleet:
    """Hears the words of the members, and adds up those that serve the same queues.

    A word is JSON: a digest of the queues served, a sequence number that makes each word differ
    from the last (no clock is compared between hosts), and the fields of ``policy.Member``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sequence = 0
        self._queues: list[str] = []
        self._digest = ""
        self._last: dict[str, tuple[str, float]] = {}
        self._members: dict[str, Member] = {}
        self._counted: set[str] = set()
        self.words_a_second = WORDS_A_SECOND
        self.versions: dict[str, str] = {}
        """Which orders each member knows, of all who speak here (``celery_fair.steering``).

        Empty for one that knows none: it is to be told of them as well.
        """
        self.company = 0
        """How many others there seem to be, heard or not."""

    @property
    def known(self) -> int:
        """How many speak here, also of other fleets, and those that have fallen silent of late."""
        return len(self._last)

    @property
    def say_seconds(self) -> float:
        """How often to speak: each word is heard by everybody."""
        return self.say_seconds_of(max(len(self._last), self.company + 1))

    def say_seconds_of(self, members: int) -> float:
        """How often each of so many speaks."""
        heard = members / MEMBERS_A_SECOND
        return max(SAY_SECONDS, heard, members * members / self.words_a_second)

    def word(
        self,
        me: Member,
        queues: Iterable[str],
        orders: str = "",
        uncleared: Mapping[Kind, int] | None = None,
    ) -> str:
        """This worker's next word; ``orders`` is the version of those that it knows, if any.

        ``uncleared`` is for publishers, who count what waits: all that no broker has any more, and
        that may be much (`Lane.uncleared`).
        """
        self._sequence += 1
        # A worker of a version that has no fronts serves the same queues.
        names = sorted(without_parts(queues))
        if names != self._queues or not self._digest:
            self._queues = names
            self._digest = digest(names)
        said = {name: round(getattr(me, name), DECIMALS) for name, _ in NUMBERS}
        more: dict[str, Any] = {"orders": orders} if orders else {}
        if uncleared and any(uncleared.values()):
            more["uncleared"] = dict(uncleared)
        return json.dumps({"queues": self._digest, "sequence": self._sequence, **more, **said})

    def hear(self, words: Mapping[str, str], now: float, *, complete: bool = True) -> None:
        """Take in the latest word of each member; one that repeats itself is silent.

        An empty word is a farewell. ``complete``: so is being absent.
        """
        for name, word in words.items():
            last = self._last.get(name)
            if last is not None and last[0] == word:
                continue
            if not word:
                self.forget([name])
                continue
            self._last[name] = (word, now)
            member, orders = _parse(name, word, self._digest)
            self.versions[name] = orders
            if member is None:
                self._members.pop(name, None)
            else:
                self._members[name] = member
        if complete:
            self.forget(self._last.keys() - words.keys())

    def view(self, me: Member, now: float) -> FleetView | None:
        """The sum, this worker as of now; ``None`` while its own words don't come back.

        As long as they don't, the others are no more silent than they were: else they would leave
        the view one by one, before it is known that nobody is in sight.
        """
        lost_seconds = LOST_AFTER * self.say_seconds
        own = self._last.get(self.name)
        if own is None or own[1] < now - lost_seconds:
            return None
        alive_after = min(own[1] + self.say_seconds, now) - lost_seconds
        alive = [
            member
            for name, member in self._members.items()
            if name != self.name and self._last[name][1] >= alive_after
        ]
        unpaid = self._unpaid({member.name for member in alive}, now)
        return fleet_view(me, alive, unpaid, fresh=self.say_seconds <= FRESH_SECONDS)

    def _unpaid(self, alive: set[str], now: float) -> float:
        """Batch of those who counted until now and have been silent: since when, nobody knows."""
        dead = (self._counted - alive) & self._members.keys()
        self._counted = alive
        return sum(self._members[name].running_batch * (now - self._last[name][1]) for name in dead)

    def silent(self, now: float, seconds: float) -> list[str]:
        """Names that have not spoken for so long."""
        return [name for name, (_, at) in self._last.items() if at < now - seconds]

    def forget(self, names: Iterable[str]) -> None:
        """Count these no longer, nor how long they have been silent."""
        for name in names:
            self._last.pop(name, None)
            self._members.pop(name, None)
            self.versions.pop(name, None)


def digest(queues: Iterable[str]) -> str:
    """What a word has in place of the names of the queues that its worker serves."""
    return hashlib.sha256("\n".join(sorted(queues)).encode()).hexdigest()[:16]


def _parse(name: str, word: str, digest: str) -> tuple[Member | None, str]:
    """The member that spoke, or ``None`` if it serves other queues or speaks another language.

    And the version of its orders, whatever it serves, or nothing. Whoever reaches the broker can
    write a word, and a later version will: nothing in it may harm.
    """
    orders = ""
    try:
        if len(word) > MAX_WORD:
            return None, orders
        spoken: dict[str, Any] = json.loads(word)
        said = spoken.pop("orders", "")
        orders = said if isinstance(said, str) and len(said) <= MAX_VERSION else ""
        if spoken.pop("queues") != digest:
            return None, orders
        spoken.pop("sequence")
        spoken.pop("uncleared", None)
        for field, types in NUMBERS:
            number = spoken[field]
            # NaN fails the comparison; a bool is no number here.
            if type(number) not in types or not 0 <= number < MAX_NUMBER:
                return None, orders
        return Member(name=name, **spoken), orders
    except Exception:
        return None, orders
