"""``celery -A proj fair …``.

Every run of ``celery`` loads this module, a worker's too: what a command alone needs, it imports.
"""

from __future__ import annotations

from typing import Any

import click

import celery_fair.worker.control  # noqa: F401 - `celery inspect fair_status` knows it from here
from celery_fair.cli.advise import advise
from celery_fair.cli.bench import bench
from celery_fair.cli.doctor import doctor
from celery_fair.cli.drain import drain
from celery_fair.cli.explain import explain
from celery_fair.cli.exporter import exporter
from celery_fair.cli.flower import flower
from celery_fair.cli.group import FairGroup
from celery_fair.cli.job import job
from celery_fair.cli.mode import mode
from celery_fair.cli.pause import pause, resume
from celery_fair.cli.record import record
from celery_fair.cli.resources import resources
from celery_fair.cli.set import set_
from celery_fair.cli.settings import settings
from celery_fair.cli.simulate import simulate
from celery_fair.cli.status import status
from celery_fair.cli.top import top


@click.group(cls=FairGroup)
def fair(**_: Any) -> None:
    """See, check and steer how interactive and batch work share the workers.

    Each command asks the workers over the broker of the app that -A names: no other access to
    them is needed. `celery -A proj fair COMMAND --help` has an example of each.
    """
    # **_: Celery adds an app's own preload options to every plugin's group.


fair.add_command(status)
fair.add_command(doctor)
fair.add_command(explain)
fair.add_command(exporter)
fair.add_command(flower)
fair.add_command(top)
fair.add_command(resources)
fair.add_command(bench)
fair.add_command(record)
fair.add_command(simulate)
fair.add_command(advise)
fair.add_command(pause)
fair.add_command(resume)
fair.add_command(set_)
fair.add_command(settings)
fair.add_command(mode)
fair.add_command(drain)
fair.add_command(job)
