"""``tests.apps.mixed`` on a Celery or kombu where a name of LACKING, "where name", is not there."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from tests.apps import mixed


def owner_of(where: str) -> Any:
    """The module or class that ``where`` names."""
    module, _, path = where.partition(":")
    owner = import_module(module)
    for part in filter(None, path.split(".")):
        owner = getattr(owner, part)
    return owner


app = None
if "BROKER" in os.environ:
    where, name = os.environ["LACKING"].split()
    delattr(owner_of(where), name)
    app = mixed.app
