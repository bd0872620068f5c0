"""``celery -A proj fair flower``: Flower's own command, with the page."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import click
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE
from flower.command import flower as flower_command
from tornado.options import options

from celery_fair.integrations.flower import install


def run(context: click.Context, arguments: Sequence[str]) -> None:
    """Run Flower with its own arguments; ``context`` is that of any command below ``celery``.

    Flower looks for Celery's own options in its parent context, which so must be the root.
    """
    install()
    made = flower_command.make_context("flower", list(arguments), parent=context.find_root())
    try:
        with made:
            flower_command.invoke(made)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise
        raise CeleryCommandException(
            f"Flower can't listen on port {options.port}: {error.strerror}. "
            f"--port=NUMBER gives it another.",
            EX_UNAVAILABLE,
        ) from error
