"""``celery -A proj fair flower``: Flower with a page that shows who holds the slots."""

from __future__ import annotations

import click
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def flower(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run Flower with a page of slots, waits, gates and shares (at /fair).

    Takes all options of `celery flower`, as in --port=5555 --basic_auth=user:password.
    """
    from celery_fair.integrations.flower import FlowerMissing, require

    try:
        require()
    except FlowerMissing as error:
        raise CeleryCommandException(str(error), EX_UNAVAILABLE) from None
    from celery_fair.integrations.flower.command import run

    run(context, arguments)
