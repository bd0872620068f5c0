"""``celery -A proj fair flower``: Flower with a page that shows who holds the slots."""

from __future__ import annotations

import click
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def flower(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run Flower with a page of slots, waits, gates and shares.

    It is at /fair. Takes all options of `celery flower`, as in --port=5555
    --basic_auth=user:password.

    Exit code: Flower's own; 69 if Flower is missing or the broker's URL can't be used.
    """
    from celery_fair.cli.remote import connection_to_broker
    from celery_fair.integrations.flower import FlowerMissing, require

    connection_to_broker(context.obj.app)  # of a bad URL Flower would tell by a traceback

    try:
        require()
    except FlowerMissing as error:
        raise CeleryCommandException(str(error), EX_UNAVAILABLE) from None
    from celery_fair.integrations.flower.command import run

    run(context, arguments)
