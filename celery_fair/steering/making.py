"""Makes the next orders, for the commands and for workers that are told without them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from celery_fair.errors import UnknownKind
from celery_fair.policy.kinds import KINDS
from celery_fair.steering.live import known_live
from celery_fair.steering.names import DRAIN, pause_name, pause_of, set_name
from celery_fair.steering.orders import MAX_COUNTER, Order, Orders


class Wish(NamedTuple):
    """What somebody wants, before it is an order: see `Order` for ``on`` and ``value``."""

    name: str
    on: bool
    value: Any = None


def pausing(kind: str, queue: str | None, *, on: bool) -> Wish:
    """Pause or resume a kind, or a queue of it; raises `UnknownKind`."""
    known = next((known for known in KINDS if known == kind), None)
    if known is None:
        raise UnknownKind(kind, KINDS, where="KIND")
    return Wish(pause_name(known, queue), on)


def assigning(name: str, value: Any) -> Wish:
    """Set a setting; raises `SettingsError` for one that can't be set live."""
    return Wish(set_name(known_live(name)), True, value)


def unsetting(name: str) -> Wish:
    """Have a setting as the worker was started with; raises as `assigning` does."""
    return Wish(set_name(known_live(name)), False)


def draining(started_at: float, *, on: bool) -> Wish:
    """Drain the process that started then, or undo that."""
    return Wish(DRAIN, on, started_at if on else None)


def make(
    orders: Orders, wishes: Iterable[Wish], scope: str, *, id: str, by: str, at: float,
    keep: bool = False,
) -> list[Order]:  # fmt: skip
    """Orders that are newer than all known ones; of one command, so that they stand together."""
    return [
        orders.next(
            scope, wish.name, wish.on, _value(orders, wish, scope, at),
            id=id, by=by, at=at, keep=keep,
        )
        for wish in wishes
    ]  # fmt: skip


def proposed(wishes: Iterable[Wish], scope: str) -> list[Order]:
    """Orders to be looked at, and not to be taken."""
    return [
        Order(scope, wish.name, wish.on, wish.value, MAX_COUNTER - 1, "proposed", "?", 0.0)
        for wish in wishes
    ]


def _value(orders: Orders, wish: Wish, scope: str, at: float) -> Any:
    if pause_of(wish.name) is None:
        return wish.value
    # A pause that is ordered once more goes on, and one that ends tells how long it was.
    before = orders.newest(scope, wish.name)
    ongoing = before is not None and before.on and isinstance(before.value, float | int)
    return before.value if ongoing and before is not None else at
