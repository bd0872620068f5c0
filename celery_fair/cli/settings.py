"""``fair settings``: what is in force, where it comes from, and who differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
from celery.bin.base import CLIContext

from celery_fair.cli.options import destination_option, json_option, timeout_option

HERE = "this app"
"""The name under which the settings of this command's own app are shown."""


class Value(NamedTuple):
    """One setting of one worker, or of this app."""

    value: Any
    source: str
    by: str | None = None


@click.command()
@click.option("--diff", is_flag=True, help="Only what isn't the same everywhere, and who has what.")
@json_option
@timeout_option
@destination_option
@click.pass_obj
def settings(
    obj: CLIContext, diff: bool, as_json: bool, timeout: float, destination: Sequence[str] | None
) -> None:
    """Show what is set, by whom or where, in this app and its workers.

    A value comes from app.conf.fair, from Fair(...), from the environment or from `fair set`
    (live); what is nowhere set has its default. Secrets and passwords are never shown.

    Exit code: 0; 1 if workers answer but none runs celery-fair, or with --diff if anything differs
    or a worker that was named doesn't answer; 69 if no worker answers or the broker can't be
    reached.
    """
    from celery_fair.cli.overview import Answers, reason
    from celery_fair.cli.remote import ask
    from celery_fair.cli.rows import plain
    from celery_fair.cli.status import console, fail_without_reports

    replies = ask(obj.app, "fair_settings", timeout_seconds=timeout, destination=destination)
    known = {n: r for n, r in sorted(replies.items()) if isinstance(r, dict) and "settings" in r}
    silent = {n: reason(r) for n, r in sorted(replies.items()) if n not in known}
    missing = sorted(set(destination or ()) - replies.keys())
    found = gathered(obj.app, known)
    if diff:
        found = {name: by_node for name, by_node in found.items() if differs(by_node)}
    if as_json:
        told = {n: {k: v._asdict() for k, v in by_node.items()} for n, by_node in found.items()}
        whole = {"settings": told, "without_celery_fair": silent, "no_answer": missing}
        click.echo(json.dumps(whole, indent=2))
    else:
        out = console(obj)
        for line in [*lines(found, known, diff=diff), *others(silent, missing)]:
            plain(out, line)
    fail_without_reports(obj.app, Answers(known, silent), timeout, destination)
    if diff and (found or missing):
        click.get_current_context().exit(1)


def gathered(app: Any, replies: Mapping[str, Any]) -> dict[str, dict[str, Value]]:
    """Each setting that is set anywhere, with its value in this app and in each worker."""
    from celery_fair.observe.brevity import short_settings

    own = _own(app)
    sets: dict[str, dict[str, Any]] = {node: reply["settings"] for node, reply in replies.items()}
    shown = {} if own is None else short_settings(own.shown())
    names = sorted(set(shown).union(*sets.values()))
    found: dict[str, dict[str, Value]] = {}
    for name in names:
        by_node = {} if own is None else {HERE: _of_app(own, shown, name)}
        for node, values in sets.items():
            by_node[node] = _of_worker(values.get(name), name)
        found[name] = by_node
    return found


def differs(by_node: Mapping[str, Value]) -> bool:
    """Whether somebody has another value than somebody else."""
    return len({json.dumps(value.value, sort_keys=True) for value in by_node.values()}) > 1


def lines(
    found: Mapping[str, Mapping[str, Value]], replies: Mapping[str, Any], *, diff: bool
) -> Iterator[str]:
    """A line a value, with those who have it; a setting that all have alike is one line."""
    for name, by_node in found.items():
        groups: dict[str, list[str]] = {}
        for node, value in by_node.items():
            groups.setdefault(_said(value), []).append(node)
        for said, nodes in groups.items():
            everywhere = len(groups) == 1 and len(nodes) > 1
            who = "everywhere" if everywhere else ", ".join(nodes)
            yield f"{name} = {said}: {who}"
    if replies and not found:
        yield "No setting differs." if diff else "Nothing is set: every setting has its default."
    for node, reply in replies.items():
        for name, why in reply["refused"].items():
            yield f"! {node} can't follow the order to set {name}: {why}."
    versions = {reply["orders"] for reply in replies.values()}
    if len(versions) > 1:
        yield "! Workers know different orders just now; they tell each other: look again."


def others(silent: Mapping[str, str], missing: Sequence[str]) -> Iterator[str]:
    """Of whom nothing is said above, and who may have anything."""
    for node, why in silent.items():
        yield f"! {node} works without celery-fair, and none of this holds there: {why}."
    for node in missing:
        yield f"! {node} doesn't answer."


def _said(value: Value) -> str:
    source = value.source if value.by is None else f"{value.source}, by {value.by}"
    return f"{json.dumps(value.value)} ({source})"


def _own(app: Any) -> Any:
    from celery_fair.app import Fair

    fair = Fair.of(app)
    return None if fair is None else fair.settings


def _of_app(own: Any, shown: Mapping[str, Any], name: str) -> Value:
    return Value(shown.get(name, _default(name)), own.source(name))


def _of_worker(said: Any, name: str) -> Value:
    from celery_fair.settings import DEFAULT

    if not isinstance(said, dict):
        return Value(_default(name), DEFAULT)
    return Value(said.get("value"), str(said.get("source")), said.get("by"))


def _default(name: str) -> Any:
    from celery_fair.settings import FairSettings

    field = FairSettings.model_fields.get(name)
    return None if field is None else field.get_default(call_default_factory=True)
