"""The document that each worker has of what was ordered; merging two of them is a join.

A map of last-writer-wins registers with Lamport counters (Shapiro et al., "A comprehensive study of
convergent and commutative replicated data types", INRIA 2011; Lamport, "Time, clocks, and the
ordering of events", CACM 1978): in whatever order, and however often, workers hear of orders, they
end with the same ones. No clock of two hosts is compared: ``at`` is there for people to read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, NamedTuple

from celery_fair.steering.names import DRAIN, EVERYBODY

MOST: Final = 200
"""Orders in a document: those that are in force for all come first, then the newest."""

MAX_COUNTER: Final = 10**12
MAX_SCOPE, MAX_NAME, MAX_ID, MAX_BY, MAX_VALUE = 255, 300, 64, 100, 1000
"""Characters, of a value as JSON: an order travels to every worker, and whoever reaches the broker
can send one.
"""


class Malformed(ValueError):  # noqa: N818 - named for what has come
    """What came is no order; nothing that came with it counts either."""


class Version(NamedTuple):
    """Stands for a document: two with the same orders have the same."""

    counter: int
    digest: str

    def __str__(self) -> str:
        return f"{self.counter}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Order:
    """One register. ``on`` is false for what ends an order: a resume, an unset, an undone drain.

    ``value``: what a setting is set to; when a pause began, also in what ends it; and whom a drain
    is meant for, by the time at which its process started. Times are epoch seconds.
    """

    scope: str
    name: str
    on: bool
    value: Any
    counter: int
    id: str
    by: str
    at: float
    keep: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, self.name

    @property
    def stamp(self) -> tuple[int, str]:
        """Who wins: the higher counter, and of two that are the same the higher id."""
        return self.counter, self.id

    @property
    def _rank(self) -> tuple[Any, ...]:
        # An id is made of what an order says but for ``at``, or by chance: the rest decides nothing
        # that matters, but must be decided alike everywhere.
        rest = (self.on, _text(self.value), self.keep, self.by, self.at)
        return (*self.stamp, *rest)

    def beats(self, other: Order | None) -> bool:
        """Whether this one counts, and not the other of the same key."""
        return other is None or self._rank > other._rank

    def as_list(self) -> list[Any]:
        """What travels, as JSON values."""
        return [
            self.scope, self.name, self.on, self.value, self.counter, self.id, self.by, self.at,
            self.keep,
        ]  # fmt: skip

    @classmethod
    def of(cls, sent: Any) -> Order:
        """Read what `as_list` has written; raises `Malformed`."""
        try:
            scope, name, on, value, counter, id, by, at, keep = sent
            _check_text((scope, MAX_SCOPE), (name, MAX_NAME), (id, MAX_ID), (by, MAX_BY))
            if type(on) is not bool or type(keep) is not bool or len(_text(value)) > MAX_VALUE:
                raise ValueError("a flag or a value")
            if type(value) is int:
                float(value)  # a moment, or a setting: both are compared with such
            if type(counter) is not int or not 0 < counter < MAX_COUNTER:
                raise ValueError("a counter")
            if type(at) not in (int, float) or not isfinite(at):
                raise ValueError("a time")
        except (TypeError, ValueError, OverflowError) as error:
            raise Malformed(f"expected an order, got something else: {error}") from None
        return cls(scope, name, on, value, counter, id, by, float(at), keep)


def _check_text(*texts: tuple[Any, int]) -> None:
    for text, longest in texts:
        # It is written to logs and terminals.
        if type(text) is not str or not 0 < len(text) <= longest or not text.isprintable():
            raise ValueError("a name")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


class Orders:
    """An immutable document; `merge` is commutative, associative and idempotent up to `MOST`.

    An order for all beats, and removes, the earlier ones of its name for one worker. Beyond `MOST`
    what counts least goes: what was ended or drained for single workers, most of whom are gone,
    then their other orders, then what was ended for all; the oldest first.
    """

    __slots__ = ("_orders", "counter", "version")

    def __init__(self, orders: Iterable[Order] = (), counter: int = 0) -> None:
        newest: dict[tuple[str, str], Order] = {}
        for order in orders:
            counter = max(counter, order.counter)
            if order.beats(newest.get(order.key)):
                newest[order.key] = order
        kept = [order for order in newest.values() if not _is_overruled(order, newest)]
        if len(kept) > MOST:
            kept = sorted(kept, key=_worth, reverse=True)[:MOST]
        self._orders: Mapping[tuple[str, str], Order] = {order.key: order for order in kept}
        self.counter = counter
        """The highest that was ever met: the next order's is higher."""
        stamps = sorted((*order.key, *order.stamp) for order in kept)
        digest = hashlib.sha256(_text(stamps).encode()).hexdigest()[:12]
        self.version = Version(counter, digest)

    def __iter__(self) -> Any:
        return iter(self._orders.values())

    def __len__(self) -> int:
        return len(self._orders)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Orders) and self._orders == other._orders

    def __hash__(self) -> int:
        return hash(self.version)

    def merge(self, orders: Iterable[Order], counter: int = 0) -> Orders:
        """The document with these orders in it as well; itself if that changes nothing."""
        orders = list(orders)
        counter = max(counter, self.counter)
        if counter == self.counter and not any(self._is_news(order) for order in orders):
            return self
        return Orders([*self, *orders], counter)

    def _is_news(self, order: Order) -> bool:
        if order.counter > self.counter:
            return True
        newest = self._orders
        return order.beats(newest.get(order.key)) and not _is_overruled(order, newest)

    def missing(self, before: Orders) -> list[Order]:
        """The orders that were in the document ``before``, and neither are nor are replaced."""
        return [order for order in before if order.key not in self._orders]

    def newest(self, node: str, name: str) -> Order | None:
        """The order of this name that counts for a worker, also one that ends another."""
        found = self._orders.get((node, name)), self._orders.get((EVERYBODY, name))
        return max((o for o in found if o is not None), key=lambda o: o.stamp, default=None)

    def of(self, node: str) -> dict[str, Order]:
        """What counts for a worker, by name."""
        names = {name for scope, name in self._orders if scope in (node, EVERYBODY)}
        found = {name: self.newest(node, name) for name in sorted(names)}
        return {name: order for name, order in found.items() if order is not None}

    def kept(self) -> list[Order]:
        """Those that are to outlive every worker that knows them."""
        return [order for order in self if order.keep]

    def next(
        self, scope: str, name: str, on: bool, value: Any, *, id: str, by: str, at: float,
        keep: bool = False,
    ) -> Order:  # fmt: skip
        """An order that is newer than all in the document.

        What ends an order that is kept is kept itself, or the next restart would bring it back.
        """
        if not on:
            ended = [self.newest(scope, name)]
            if scope == EVERYBODY:
                ended += [order for order in self if order.name == name]
            keep = keep or any(order is not None and order.keep for order in ended)
        order = Order(scope, name, on, value, self.counter + 1, id, by[:MAX_BY] or "?", at, keep)
        return order if id else replace(order, id=digest_of(order))


def digest_of(order: Order) -> str:
    """An id made of what an order says: workers that are told the same make the same order."""
    said = [order.scope, order.name, order.on, order.value, order.keep]
    return hashlib.sha256(_text(said).encode()).hexdigest()[:16]


def _is_overruled(order: Order, newest: Mapping[tuple[str, str], Order]) -> bool:
    for_all = newest.get((EVERYBODY, order.name))
    return order.scope != EVERYBODY and for_all is not None and for_all.stamp > order.stamp


def _worth(order: Order) -> tuple[int, tuple[Any, ...]]:
    if order.scope == EVERYBODY:
        tier = 3 if order.on else 1
    else:
        tier = 2 if order.on and order.name != DRAIN else 0
    return tier, (*order.stamp, *order.key)
