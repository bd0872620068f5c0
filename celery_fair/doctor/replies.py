"""What the workers have answered, as the live rules look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Replies:
    """By node: reports of ``fair_status``, names of the queues consumed, ``inspect stats``."""

    reports: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, frozenset[str]]
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def consumed(self) -> frozenset[str]:
        """The queues that somebody consumes."""
        return frozenset(queue for queues in self.queues.values() for queue in queues)


def by_value(values: Mapping[str, Any], show: Callable[[Any], str] = repr) -> dict[str, list[str]]:
    """Nodes by what they have, as it is shown; what most of them have first."""
    found: dict[str, list[str]] = {}
    for node, value in values.items():
        found.setdefault(show(value), []).append(node)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
