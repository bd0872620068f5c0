"""Giving an order to the workers: asked first, told then, and asked again what came of it."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from celery.exceptions import CeleryCommandException

from celery_fair.cli.failing import EX_USAGE
from celery_fair.cli.overview import Answers, reason
from celery_fair.cli.remote import ask
from celery_fair.errors import SettingsError
from celery_fair.steering import EVERYBODY, Order, Orders
from celery_fair.steering.keeping import kept_orders, merge_call, overruled
from celery_fair.steering.making import Wish, make, proposed
from celery_fair.steering.orders import MOST

AGREE_TRIES = 3
AGREE_SECONDS = 0.3
"""How often, and after how long, workers are asked again whose orders differ."""


class Line(NamedTuple):
    """What an order of a name came to in a worker."""

    node: str
    name: str
    before: Any
    after: Any


@dataclass
class Outcome:
    """What the workers have said before and after; reports are those of ``fair_order``."""

    wishes: Sequence[Wish]
    answers: Answers
    targets: Sequence[str]
    orders: Sequence[Order] = ()
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    named: Sequence[str] = ()
    """Workers that were named; without any, all are meant that run celery-fair."""

    @property
    def missing(self) -> list[str]:
        """Workers that were named, and haven't answered."""
        return sorted(set(self.named) - self.answers.reports.keys() - self.answers.silent.keys())

    @property
    def lines(self) -> list[Line]:
        """What has changed, by worker; of those that have answered both times."""
        return [
            Line(node, wish.name, self.answers.reports[node]["about"][wish.name],
                 self.after[node]["about"][wish.name])
            for node in self.targets if node in self.after
            for wish in self.wishes
        ]  # fmt: skip

    @property
    def lost(self) -> list[str]:
        """Workers that had answered, and did no more."""
        return sorted(self.answers.reports.keys() - self.after.keys()) if self.orders else []

    @property
    def agree(self) -> bool:
        """Whether all workers that have answered know the same orders."""
        return len({report["version"] for report in self.after.values()}) <= 1

    @property
    def not_in_force(self) -> dict[str, str]:
        """Workers that have noted a pause or a drain, and don't follow it; and why."""
        if not any(wish.on and not wish.name.startswith("set:") for wish in self.wishes):
            return {}
        nodes = [node for node in self.targets if node in self.after]
        said = {node: self.after[node]["not_in_force"] for node in nodes}
        return {node: why for node, why in said.items() if why}

    @property
    def overruled(self) -> list[Order]:
        """Orders of others that were given meanwhile, and count."""
        known = _document(self.after.values())
        ids = {order.id for order in self.orders}
        newest = [known.newest(order.scope, order.name) for order in self.orders]
        return [order for order in newest if order is not None and order.id not in ids]

    @property
    def done(self) -> bool:
        """Whether it is so everywhere by now, of those that were meant."""
        plain = [node for node in self.named if node in self.answers.silent]
        troubles = (
            self.refusals, self.missing, self.lost, self.overruled, self.not_in_force, plain,
        )  # fmt: skip
        return bool(self.targets) and not any(troubles) and self.agree


def give(
    app: Any,
    wishes: Sequence[Wish],
    *,
    destination: Sequence[str] | None,
    timeout_seconds: float,
    keep: bool = False,
    check: Callable[[Answers], Sequence[Wish] | None] = lambda answers: None,
) -> Outcome:
    """Have the workers follow ``wishes``, all or those of ``destination``; nothing if one refuses.

    ``check`` looks at the first answers, raises if they allow no such order, and may make the
    wishes anew by what they say. Without an answer nothing is told: see ``Outcome.answers``.
    """
    about = [wish.name for wish in wishes]
    scopes = list(destination or [EVERYBODY])
    if len(scopes) * len(wishes) > MOST // 2:
        raise CeleryCommandException(
            f"{len(scopes)} workers were named: workers remember {MOST} orders in all, so name "
            f"{MOST // 2 // len(wishes)} at the most, or none for all of them.",
            EX_USAGE,
        )
    proposals = [order for scope in scopes for order in proposed(wishes, scope)]
    said = _ask(app, timeout_seconds, orders=proposals, check=True, about=about)
    answers = _answers(said)
    targets = [node for node in answers.reports if not destination or node in destination]
    outcome = Outcome(wishes, answers, targets, named=list(destination or ()))
    if not targets:
        return outcome
    outcome.wishes = wishes = check(answers) or wishes
    reports = answers.reports
    outcome.refusals = {n: reports[n]["refusal"] for n in targets if reports[n]["refusal"]}
    if outcome.refusals:
        return outcome
    known, id, at = _document(reports.values()), uuid4().hex[:16], time.time()
    scopes = scopes if scopes == [EVERYBODY] else targets
    outcome.orders = orders = [
        order
        for scope in scopes
        for order in make(known, wishes, scope, id=id, by=operator(), at=at, keep=keep)
    ]
    _keep(app, orders, asked=keep)
    everybody = list(reports)
    _ask(app, timeout_seconds, everybody, orders=orders)
    outcome.after = _agreed(app, timeout_seconds, everybody, about)
    return outcome


def operator() -> str:
    """Who gives the order, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def _agreed(
    app: Any, timeout_seconds: float, nodes: Sequence[str], about: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    """Ask what is in force now; another operator's order may still be on its way to some."""
    after: Mapping[str, Mapping[str, Any]] = {}
    for _ in range(AGREE_TRIES):
        after = _answers(_ask(app, timeout_seconds, nodes, about=about)).reports
        if len({report["version"] for report in after.values()}) <= 1:
            break
        time.sleep(AGREE_SECONDS)
    return after


def _ask(
    app: Any,
    timeout_seconds: float,
    nodes: Sequence[str] | None = None,
    *,
    orders: Iterable[Order] = (),
    **arguments: Any,
) -> dict[str, Any]:
    return ask(
        app,
        "fair_order",
        timeout_seconds=timeout_seconds,
        destination=nodes,
        limit=None if nodes is None else len(nodes),
        arguments={"orders": [order.as_list() for order in orders], **arguments},
    )


def _answers(replies: Mapping[str, Any]) -> Answers:
    reports, silent = {}, {}
    for node, reply in sorted(replies.items()):
        if isinstance(reply, dict) and "about" in reply:
            reports[node] = reply
        else:
            silent[node] = reason(reply)
    return Answers(reports, silent)


def _document(reports: Iterable[Mapping[str, Any]]) -> Orders:
    """What is known of the orders in question, from all workers."""
    reports = list(reports)
    orders = [Order.of(order) for report in reports for order in report["orders"]]
    return Orders(orders, max((report["counter"] for report in reports), default=0))


def _keep(app: Any, orders: Sequence[Order], *, asked: bool) -> None:
    """Write what is to outlive the workers; raises `SettingsError` where that can't be had."""
    from celery_fair.app import Fair
    from celery_fair.state import StateAway

    kept = [order for order in orders if order.keep]
    if not kept:
        return
    fair = Fair.of(app)
    try:
        if fair is None:
            raise SettingsError(["no Fair is installed in this app"])
        state = fair.identity.state
        found = kept_orders(state.call(merge_call(kept), insist=True))
        if gone := overruled(found):
            state.call(merge_call(dropped=gone))
    except (SettingsError, StateAway) as error:
        why = " ".join(error.problems) if isinstance(error, SettingsError) else "it doesn't answer"
        what = "--keep" if asked else "an order that is kept"
        raise SettingsError([
            f"{what} needs a Redis that remembers orders, and there is none here ({why}): set "
            f"state_url, as in 'redis://host:6379/1', for this command and the workers"
        ]) from error  # fmt: skip
    finally:
        if fair is not None:
            fair.identity.close()
