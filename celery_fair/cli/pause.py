"""``fair pause`` and ``fair resume``: stop a kind, or one queue, and go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.failing import EX_USAGE
from celery_fair.cli.options import ordering_options
from celery_fair.policy.kinds import KINDS

if TYPE_CHECKING:
    from celery_fair.cli.overview import Answers

kind_argument = click.argument("kind", type=click.Choice(KINDS))
queue_option = click.option("--queue", metavar="NAME", help="Only this queue of the kind.")


@click.command()
@kind_argument
@queue_option
@ordering_options
@click.pass_obj
def pause(
    obj: CLIContext, kind: str, queue: str | None, destination: Sequence[str] | None, keep: bool,
    timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Start no more tasks of a kind, or from one queue.

    What runs goes on, and what waits stays at the broker; nothing is lost, and no time in the pause
    counts towards a queue-wait timeout.

    Exit code: 0; 1 if a worker refuses, doesn't answer or follows another order; 2 for a queue that
    no worker consumes; 69 if no worker answers or the broker can't be reached.
    """
    _order(obj, kind, queue, destination, keep, timeout, on=True, as_json=as_json)


@click.command()
@kind_argument
@queue_option
@ordering_options
@click.pass_obj
def resume(
    obj: CLIContext, kind: str, queue: str | None, destination: Sequence[str] | None, keep: bool,
    timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Go on with a kind, or with one queue, that was paused.

    A pause of all workers is resumed in all, or in those of --destination.

    Exit code: 0; 1 if a worker refuses, doesn't answer or follows another order; 2 for a queue that
    no worker consumes; 69 if no worker answers or the broker can't be reached.
    """
    _order(obj, kind, queue, destination, keep, timeout, on=False, as_json=as_json)


def _order(
    obj: CLIContext, kind: str, queue: str | None, destination: Sequence[str] | None, keep: bool,
    timeout: float, *, on: bool, as_json: bool,
) -> None:  # fmt: skip
    from celery_fair.cli.ordering import give
    from celery_fair.cli.ordering_text import tell
    from celery_fair.steering.making import pausing

    outcome = give(
        obj.app,
        [pausing(kind, queue, on=on)],
        destination=destination,
        timeout_seconds=timeout,
        keep=keep,
        check=lambda answers: _check_queue(answers, kind, queue),
    )
    tell(obj, outcome, timeout, destination, as_json=as_json)


def _check_queue(answers: Answers, kind: str, queue: str | None) -> None:
    """A queue that nobody consumes would be paused without anybody noticing."""
    from celery_fair.errors import did_you_mean

    if queue is None:
        return
    known: dict[str, str] = {}
    for report in answers.reports.values():
        known.update(report["queues"] or {})
    if queue not in known:
        hint = did_you_mean(queue, known) or f"; they consume {', '.join(sorted(known)[:10])}"
        raise CeleryCommandException(f"no worker here consumes {queue!r}{hint}", EX_USAGE)
    if known[queue] != kind:
        raise CeleryCommandException(
            f"{queue!r} is {known[queue]} here, not {kind}: say {known[queue]} --queue {queue}",
            EX_USAGE,
        )
