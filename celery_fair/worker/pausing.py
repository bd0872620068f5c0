"""What is paused in this worker, as far as it concerns the messages that it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from celery_fair.policy.kinds import Kind
from celery_fair.worker import internals
from celery_fair.worker.lanes import Held, Lane


class Pausing:
    """Marks lanes of paused kinds, and keeps what is held of paused queues apart from the rest.

    Both go back to the broker as soon as that costs nothing, and wait here unacknowledged else, so
    that no crash loses them.
    """

    def __init__(self) -> None:
        self.kinds: frozenset[Kind] = frozenset()
        self.keys: frozenset[str] = frozenset()
        """Routing keys of paused queues; the one look that each arrival pays for."""
        self._since: dict[Kind | str, float] = {}
        """When each of both was paused, on this worker's clock."""

    def change(
        self, lanes: Mapping[Kind, Lane], kinds: frozenset[Kind], keys: frozenset[str]
    ) -> None:
        """Pause these from now on, and no others; with the dispatcher's lock held."""
        now = monotonic()
        ended = {
            what: at for what, at in self._since.items() if what not in kinds and what not in keys
        }
        for what in ended:
            del self._since[what]
        for what in (*kinds, *keys):
            self._since.setdefault(what, now)
        self.kinds, self.keys = kinds, keys
        for lane in lanes.values():
            lane.set_aside(self._is_aside)
            if ended:
                lane.postpone(_paused_seconds(lane.kind, ended, now))
        self.mark(lanes)

    def mark(self, lanes: Mapping[Kind, Lane]) -> None:
        """Tell the lanes, which may be those of a new connection."""
        for kind, lane in lanes.items():
            lane.paused = kind in self.kinds

    def put_aside(self, lane: Lane) -> None:
        """Look through what is held, which has just got more."""
        lane.set_aside(self._is_aside)

    def is_paused(self, request: Any) -> bool:
        """Whether its queue is."""
        return bool(self.keys) and internals.queue_of(request) in self.keys

    def _is_aside(self, held: Held) -> bool:
        return internals.queue_of(held.request) in self.keys


def _paused_seconds(
    kind: Kind, ended: Mapping[Kind | str, float], now: float
) -> Callable[[Held], float]:
    """How long what is held has waited for the end of a pause."""

    def seconds(held: Held) -> float:
        key = internals.queue_of(held.request)
        began = [ended[what] for what in (kind, key) if what is not None and what in ended]
        return max((now - max(since, held.received_at) for since in began), default=0.0)

    return seconds
