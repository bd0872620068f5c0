"""``celery -A proj fair …``.

Every run of ``celery`` loads this module, a worker's too: what a command alone needs, it imports.
"""

from __future__ import annotations

from typing import Any

import click

import celery_fair.worker.control  # noqa: F401 - `celery inspect fair_status` knows it from here
from celery_fair.cli.doctor import doctor
from celery_fair.cli.exporter import exporter
from celery_fair.cli.flower import flower
from celery_fair.cli.status import status
from celery_fair.cli.top import top


@click.group()
def fair(**_: Any) -> None:
    """See and check how interactive and batch work share the workers."""
    # **_: Celery adds an app's own preload options to every plugin's group.


fair.add_command(status)
fair.add_command(doctor)
fair.add_command(exporter)
fair.add_command(flower)
fair.add_command(top)
