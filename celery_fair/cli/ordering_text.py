"""What came of an order, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.ordering import Outcome
from celery_fair.cli.overview import Answers
from celery_fair.cli.rows import plain
from celery_fair.cli.status import console, fail_without_reports
from celery_fair.errors import did_you_mean
from celery_fair.steering import pause_of, setting_of

EX_NOT_DONE: Final = 1
"""A worker refused, didn't answer, or follows the order of somebody else."""


def tell(
    obj: CLIContext, outcome: Outcome, timeout: float, destination: Any, *, as_json: bool
) -> None:
    """Write it, and end with another exit code if it isn't so everywhere."""
    if as_json:
        click.echo(json.dumps(as_object(outcome), indent=2))
    else:
        out = console(obj)
        for line in lines(outcome):
            plain(out, line)
    if not outcome.targets:
        _nobody(obj.app, outcome.answers, timeout, destination)
    if not outcome.done:
        raise CeleryCommandException("It is not so everywhere, as said above.", EX_NOT_DONE)


def _nobody(app: Any, answers: Answers, timeout: float, destination: Sequence[str] | None) -> None:
    without = [node for node in destination or () if node in answers.silent]
    if without:
        raise CeleryCommandException(
            f"{', '.join(without)}: no celery-fair runs there, so that no order reaches it: call "
            f"Fair(app) where the app is made, and restart the worker.",
            EX_NOT_DONE,
        )
    if destination and answers.reports:
        names = list(answers.reports)
        hint = did_you_mean(destination[0], names) or f"; {', '.join(names[:5])} do"
        who = ", ".join(destination)
        verb = "doesn't" if len(destination) == 1 else "don't"
        raise CeleryCommandException(f"{who} {verb} answer{hint}", EX_UNAVAILABLE)
    fail_without_reports(app, answers, timeout, destination)


def as_object(outcome: Outcome) -> dict[str, Any]:
    """What ``--json`` writes."""
    workers: dict[str, dict[str, Any]] = {}
    for line in outcome.lines:
        changes = workers.setdefault(line.node, {})
        changes[what(line.name)] = {"before": line.before, "after": line.after}
    return {
        "done": outcome.done,
        "workers": workers,
        "refused": dict(outcome.refusals),
        "not_in_force": outcome.not_in_force,
        "no_answer": [*outcome.missing, *outcome.lost],
        "without_celery_fair": dict(outcome.answers.silent),
        "overruled": [
            {"what": what(o.name), "on": o.on, "value": o.value, "by": o.by, "at": o.at}
            for o in outcome.overruled
        ],
        "agree": outcome.agree,
        "kept": any(order.keep for order in outcome.orders),
    }


def lines(outcome: Outcome) -> Iterator[str]:
    """A line a worker, and what deserves a word."""
    width = max((len(line.node) for line in outcome.lines), default=0)
    for wish in outcome.wishes:
        found = [line for line in outcome.lines if line.name == wish.name]
        if found:
            yield what(wish.name)
        for line in found:
            yield f"  {line.node:<{width}}  {words(line.before)} → {words(line.after)}"
    yield from _troubles(outcome)
    if outcome.orders and not outcome.overruled and any(wish.on for wish in outcome.wishes):
        yield _how_long(outcome)


def _troubles(outcome: Outcome) -> Iterator[str]:
    for node, why in outcome.refusals.items():
        yield f"! {node} refuses: {why}."
    if outcome.refusals:
        yield "! Nothing was changed, in no worker."
    for node, why in outcome.not_in_force.items():
        yield f"! {node} has noted it, and doesn't follow: {why}."
    for node in outcome.missing if outcome.orders else ():
        yield f"! {node} doesn't answer: it follows when it is back, if another worker can tell it."
    for node in outcome.lost:
        yield f"! {node} has answered, and then no more: look again with `fair settings`."
    for node, why in outcome.answers.silent.items():
        yield f"! {node} works without celery-fair, and goes on: {why}."
    for order in outcome.overruled:
        value = "" if order.value is None or pause_of(order.name) else f" {words(order.value)}"
        verb = ("set" if setting_of(order.name) else "paused") if order.on else "ended"
        yield f"! Overruled meanwhile by {order.by}: {what(order.name)} was {verb}{value}."
    if not outcome.agree:
        yield "! Workers know different orders: they tell each other; `fair settings --diff` shows."


def _how_long(outcome: Outcome) -> str:
    if any(order.keep for order in outcome.orders):
        return "Kept over restarts."
    if all(order.value is not None and order.name == "drain" for order in outcome.orders):
        return "For this process: the next of its name takes work."
    return "Lasts while a worker is left that knows it; --keep keeps it over restarts."


def what(name: str) -> str:
    """What an order is about: a setting, a kind, a queue, or the worker."""
    pause = pause_of(name)
    return str(pause) if pause is not None else setting_of(name) or "work"


def words(value: Any) -> str:
    """A value, or what a worker does."""
    if isinstance(value, dict):
        return drained(value)
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def drained(left: dict[str, Any]) -> str:
    """How far a worker is with ending its work."""
    said = "drained" if left["done"] else "draining"
    parts = [
        f"{left[name]} {text}"
        for name, text in (("running", "running"), ("held", "held"), ("scheduled", "wait for their "
                            "time"), ("rate_limited", "for their rate"))
        if left[name]
    ]  # fmt: skip
    return f"{said} ({', '.join(parts)})" if parts else said
