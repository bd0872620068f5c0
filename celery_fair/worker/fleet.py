"""The other workers that serve the same queues, as of their last word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from celery_fair.policy import FleetView, Member, fleet_view

SAY_SECONDS = 1.0
MEMBERS_A_SECOND = 50
"""How many words a worker hears a second at the most: a larger fleet speaks less often."""
LOST_AFTER = 4
"""Intervals of silence after which a member no longer counts."""
FORGOTTEN_SECONDS = 120.0
MAX_WORD = 4096
MAX_NUMBER = 1e9
WHOLE_NUMBERS = ("slots", "running_interactive", "running_batch")


class Fleet:
    """Hears the words of the members, and adds up those that serve the same queues.

    A word is JSON: the queues served, a sequence number that makes each word differ from the last
    (no clock is compared between hosts), and the fields of ``policy.Member``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sequence = 0
        self._queues: list[str] = []
        self._last: dict[str, tuple[str, float]] = {}
        self._members: dict[str, Member] = {}

    @property
    def say_seconds(self) -> float:
        """How often to speak: each word is heard by everybody."""
        return max(SAY_SECONDS, len(self._last) / MEMBERS_A_SECOND)

    def word(self, me: Member, queues: Iterable[str]) -> str:
        """This worker's next word."""
        self._sequence += 1
        self._queues = sorted(queues)
        return json.dumps({"queues": self._queues, "sequence": self._sequence, **asdict(me)})

    def hear(self, words: Mapping[str, str], now: float) -> None:
        """Take in the latest word of each member; one that repeats itself is silent."""
        for name, word in words.items():
            last = self._last.get(name)
            if last is not None and last[0] == word:
                continue
            self._last[name] = (word, now)
            member = _parse(name, word, self._queues)
            if member is None:
                self._members.pop(name, None)
            else:
                self._members[name] = member
        for name in self._last.keys() - words.keys():
            self._forget(name)

    def view(self, me: Member, now: float) -> FleetView | None:
        """The sum, this worker as of now; ``None`` while its own words don't come back."""
        alive_after = now - LOST_AFTER * self.say_seconds
        own = self._last.get(self.name)
        if own is None or own[1] < alive_after:
            return None
        alive = [
            member
            for name, member in self._members.items()
            if name != self.name and self._last[name][1] >= alive_after
        ]
        return fleet_view(me, alive)

    def forgotten(self, now: float) -> list[str]:
        """Names that have been silent for so long that their words may be removed."""
        return [name for name, (_, at) in self._last.items() if at < now - FORGOTTEN_SECONDS]

    def _forget(self, name: str) -> None:
        self._last.pop(name, None)
        self._members.pop(name, None)


def _parse(name: str, word: str, queues: list[str]) -> Member | None:
    """The member that spoke, or ``None`` if it serves other queues or speaks another language.

    Whoever reaches the broker can write a word, and a later version will: nothing in it may harm.
    """
    try:
        if len(word) > MAX_WORD:
            return None
        spoken: dict[str, Any] = json.loads(word)
        if spoken.pop("queues") != queues:
            return None
        spoken.pop("sequence")
        spoken["name"] = name
        member = Member(**spoken)
        return member if all(map(_is_sane, asdict(member).items())) else None
    except Exception:
        return None


def _is_sane(item: tuple[str, object]) -> bool:
    """Whether a field is a number in range; NaN fails the comparison."""
    name, value = item
    if name == "name":
        return True
    types = (int,) if name in WHOLE_NUMBERS else (int, float)
    return type(value) in types and 0 <= value < MAX_NUMBER  # type: ignore[operator]
