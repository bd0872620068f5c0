"""Remote control: orders to this worker, by ``celery -A proj fair`` and by ``celery control``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from celery.worker.control import control_command, inspect_command

if TYPE_CHECKING:
    from celery_fair.steering import Order
    from celery_fair.steering.making import Wish
    from celery_fair.worker.steering import Steering

BY = "celery control"
"""Who has given an order that comes without a name."""


@control_command(
    args=[("kind", str), ("queue", str)], signature="<interactive|batch> [queue]"
)  # fmt: skip
def fair_pause(state: Any, kind: str = "", queue: str | None = None, **_: Any) -> dict[str, Any]:
    """Start no more tasks of a kind, or from one queue, until it is resumed."""
    return _obey(state, lambda steering: [_pausing(steering, kind, queue, on=True)])


@control_command(
    args=[("kind", str), ("queue", str)], signature="<interactive|batch> [queue]"
)  # fmt: skip
def fair_resume(state: Any, kind: str = "", queue: str | None = None, **_: Any) -> dict[str, Any]:
    """Go on with a kind, or with one queue, that was paused."""
    return _obey(state, lambda steering: [_pausing(steering, kind, queue, on=False)])


@control_command(args=[("setting", str), ("value", str)], signature="<setting> [value]")
def fair_set(state: Any, setting: str = "", value: str | None = None, **_: Any) -> dict[str, Any]:
    """Change a setting of celery-fair; without a value, to what the worker was started with."""
    from celery_fair.steering.live import read_assignment
    from celery_fair.steering.making import assigning, unsetting

    if value is None:
        return _obey(state, lambda steering: [unsetting(setting)])
    return _obey(state, lambda steering: [assigning(*read_assignment(f"{setting}={value}"))])


@control_command(args=[("undo", str)], signature="[undo]")
def fair_drain(state: Any, undo: str | None = None, **_: Any) -> dict[str, Any]:
    """Take no more work, give back what is held, and go on with what runs: with -d."""
    from celery_fair.steering.making import draining

    steering = _steering(state)
    if steering is not None and not steering.is_addressed:
        return {"error": "expected one worker to drain, got all of them: name it with -d"}
    return _obey(state, lambda steering: [draining(steering.started_at, on=not undo)])


@inspect_command()
def fair_settings(state: Any, **_: Any) -> dict[str, Any]:
    """What was set for celery-fair, from where, and what was set live, by whom."""
    from celery_fair.observe.steering import settings_facts

    steering = _steering(state)
    return _plain(state) if steering is None else settings_facts(steering)


@inspect_command()
def fair_orders(state: Any, ask: bool = False, **_: Any) -> dict[str, Any]:
    """The orders that this worker knows of: pauses, settings and drains."""
    steering = _steering(state)
    if steering is None:
        return _plain(state)
    if ask:
        steering.spreading.asked()
        return {}
    orders = steering.orders
    told = [f"{o.scope} {o.name} {'on' if o.on else 'off'} {o.value} by {o.by}" for o in orders]
    return {"version": str(orders.version), "orders": sorted(told)}


@control_command(visible=False)
def fair_order(
    state: Any,
    orders: Sequence[Any] = (),
    counter: int = 0,
    check: bool = False,
    about: Sequence[str] = (),
    **_: Any,
) -> dict[str, Any]:
    """Take orders that were made elsewhere, or only say whether they could be followed."""
    from celery_fair.steering import Malformed, Order, Orders

    steering = _steering(state)
    if steering is None:
        return _plain(state)
    try:
        read = [Order.of(order) for order in orders]
        counter = counter if type(counter) is int and 0 <= counter < 10**12 else 0
    except Malformed as error:
        return {"error": str(error)}
    refusal = steering.refusal(read) if check else None
    changes = [] if check else steering.receive(read, counter)
    if not check and Orders(read, counter).version == steering.orders.version:
        steering.spreading.told()  # all that is known here, to whoever asks
    return {
        **steering.report(about),
        "refusal": refusal,
        "changes": [[change.what, change.before, change.after] for change in changes],
    }


def _obey(state: Any, wishes: Any) -> dict[str, Any]:
    """Make orders of what is wished, for all workers if all of them are told, and follow them."""
    from celery_fair.errors import SettingsError, UnknownKind
    from celery_fair.steering import EVERYBODY, Malformed, Order
    from celery_fair.steering.making import make

    steering = _steering(state)
    if steering is None:
        return _plain(state)
    try:
        wished: Iterable[Wish] = wishes(steering)
    except SettingsError as error:
        return {"error": " ".join(error.problems)}
    except UnknownKind as error:
        return {"error": str(error)}
    scope = steering.node if steering.is_addressed else EVERYBODY
    orders = make(steering.orders, wished, scope, id="", by=BY, at=time.time())
    try:  # what another worker couldn't read would keep it from all others as well
        orders = [Order.of(order.as_list()) for order in orders]
    except Malformed as error:
        return {"error": str(error)}
    refusal = _nothing_to_pause(steering, orders) or steering.refusal(orders)
    if refusal is not None:
        return {"error": refusal}
    changes = [str(change) for change in steering.receive(orders)]
    steering.keeping.keep(orders)  # what a command makes it has written itself
    if steering.not_in_force and not any(order.name.startswith("set:") for order in orders):
        return {"error": f"noted, and not in force here: {steering.not_in_force}"}
    return {"ok": "; ".join(changes) or "nothing has changed: it was so already"}


def _pausing(steering: Steering, kind: str, queue: str | None, *, on: bool) -> Wish:
    """Pause or resume a kind, or a queue by the kind that it is here: it has one name only."""
    from celery_fair.errors import SettingsError
    from celery_fair.steering.making import pausing

    wish = pausing(kind, queue, on=on)
    if queue is not None and (known := steering.kind_of_queue(queue)) != kind:
        raise SettingsError([f"{queue!r} is {known} here, not {kind}: name that kind"])
    return wish


def _nothing_to_pause(steering: Steering, orders: Iterable[Order]) -> str | None:
    """Why a pause of a queue would stop nothing here: another worker may consume it, and tell."""
    from celery_fair.errors import did_you_mean
    from celery_fair.steering import pause_of

    known = steering.queues.known()
    for order in orders:
        pause = pause_of(order.name)
        queue = None if pause is None else pause.queue
        if queue is not None and queue not in known and order.name not in steering.pauses:
            return f"this worker doesn't consume {queue!r}{did_you_mean(queue, known)}"
    return None


def _steering(state: Any) -> Steering | None:
    scheduler = getattr(state.consumer.controller, "fair", None)
    return None if scheduler is None else scheduler.steering


def _plain(state: Any) -> dict[str, Any]:
    from celery_fair.worker.control import why_plain

    return {"error": f"plain Celery, since {why_plain(state.app)}"}
