"""``fair set``: change settings of running workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from click.shell_completion import CompletionItem

from celery_fair.cli.failing import EX_USAGE
from celery_fair.cli.options import ordering_options

if TYPE_CHECKING:
    from celery_fair.steering.making import Wish


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from celery_fair.steering.live import LIVE_SETTINGS

    end = "=" if param.name == "assignments" else ""
    names = sorted(name + end for name in LIVE_SETTINGS if name.startswith(incomplete))
    return [CompletionItem(name) for name in names]


@click.command(name="set")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, shell_complete=_names)
@click.option(
    "--unset",
    multiple=True,
    metavar="NAME",
    shell_complete=_names,
    help="Go back to what the workers were started with; may be given several times.",
)
@ordering_options
@click.pass_obj
def set_(
    obj: CLIContext, assignments: Sequence[str], unset: Sequence[str],
    destination: Sequence[str] | None, keep: bool, timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Change settings of workers while they run.

    All that is given is checked together, here and by each worker against its own pool; if one
    refuses, nothing is changed anywhere.

    Exit code: 0; 1 if a worker refuses, doesn't answer or follows another order; 2 for what can't
    be set live; 69 if no worker answers or the broker can't be reached.
    """
    from celery_fair.cli.ordering import give
    from celery_fair.cli.ordering_text import tell

    outcome = give(
        obj.app, _wishes(obj.app, assignments, unset),
        destination=destination, timeout_seconds=timeout, keep=keep,
    )  # fmt: skip
    tell(obj, outcome, timeout, destination, as_json=as_json)


def _wishes(app: Any, assignments: Sequence[str], unset: Sequence[str]) -> list[Wish]:
    from celery_fair.app import Fair
    from celery_fair.errors import SettingsError
    from celery_fair.steering.live import lived, read_assignment
    from celery_fair.steering.making import assigning, unsetting

    if not assignments and not unset:
        raise CeleryCommandException("Expected NAME=VALUE, or --unset NAME, got neither.", EX_USAGE)
    try:
        given = [read_assignment(text) for text in assignments]
        ended = [unsetting(name.strip().lower()) for name in unset]
        values = dict(given)
        wishes = [*(assigning(name, value) for name, value in given), *ended]
        fair = Fair.of(app)
        if fair is not None:
            lived(fair.settings, values)
    except SettingsError as error:
        raise CeleryCommandException("\n".join(error.problems), EX_USAGE) from error
    _check_once(wishes)
    return wishes


def _check_once(wishes: Sequence[Wish]) -> None:
    """Of two words on one setting nobody can say which is meant."""
    from celery_fair.steering import setting_of

    names = [setting_of(wish.name) for wish in wishes]
    for name in names:
        if names.count(name) > 1:
            raise CeleryCommandException(f"{name} was given twice: say it once.", EX_USAGE)
