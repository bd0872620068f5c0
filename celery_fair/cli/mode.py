"""``fair mode``: have workers enforce, or only observe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.options import ordering_options

if TYPE_CHECKING:
    from celery_fair.cli.ordering import Outcome

MODES: Final = ("enforce", "observe")
CHANGE_SECONDS: Final = 5.0
"""Within which a worker changes; where there is no event loop it looks every two seconds."""
LOOK_SECONDS: Final = 0.2
EX_NOT_CHANGED: Final = 1


@click.command()
@click.argument("mode", type=click.Choice(MODES))
@ordering_options
@click.pass_obj
def mode(
    obj: CLIContext, mode: str, destination: Sequence[str] | None, keep: bool, timeout: float,
    as_json: bool,
) -> None:  # fmt: skip
    """Enforce what celery-fair decides, or only observe.

    An observing worker runs tasks in Celery's own order, and counts what it would have done. The
    mode is a setting, set live here. What runs goes on, and what waits is neither lost nor run
    twice; what Celery has in its hands already starts in its order.

    Exit code: 0; 1 if a worker refuses, doesn't answer, follows another order or hasn't changed
    within five seconds; 69 if no worker answers or the broker can't be reached.
    """
    from celery_fair.cli.ordering import give
    from celery_fair.cli.ordering_text import tell
    from celery_fair.steering.making import assigning

    outcome = give(
        obj.app, [assigning("mode", mode)],
        destination=destination, timeout_seconds=timeout, keep=keep,
    )  # fmt: skip
    tell(obj, outcome, timeout, destination, as_json=as_json)
    _wait(obj.app, outcome, mode, timeout)


def _wait(app: Any, outcome: Outcome, mode: str, timeout: float) -> None:
    """What was ordered is done between two turns of a worker's loop."""
    end = time.monotonic() + CHANGE_SECONDS
    while others := _in_another(app, outcome.targets, mode, timeout):
        if time.monotonic() >= end:
            raise CeleryCommandException(
                f"Not in mode {mode} within {CHANGE_SECONDS:g} s: {', '.join(others)}; a worker "
                f"that can't change says why in its log, and one that is busy does it later.",
                EX_NOT_CHANGED,
            )
        time.sleep(LOOK_SECONDS)


def _in_another(app: Any, nodes: Sequence[str], mode: str, timeout: float) -> list[str]:
    from celery_fair.cli.remote import ask

    reports: Mapping[str, Any] = ask(
        app, "fair_status", timeout_seconds=timeout, destination=nodes, limit=len(nodes)
    )
    return [node for node in nodes if reports.get(node, {}).get("mode") != mode]
