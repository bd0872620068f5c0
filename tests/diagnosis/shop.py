"""The shop of docs/diagnosis.md; the environment says where its broker is, and what is wrong."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from celery import Celery

from celery_fair import Fair

KINDS = {"shop.answer": "interactive", "shop.summarize": "batch"}


def make_app(environ: Mapping[str, str]) -> Celery:
    """The shop's app: with a Fair, unless SHOP_PLAIN is set."""
    app = Celery("shop", broker=environ["SHOP_BROKER"], set_as_current=False)
    app.conf.update(json.loads(environ.get("SHOP_CONF", "{}")))
    if not environ.get("SHOP_PLAIN"):
        Fair(app, kinds=KINDS, **json.loads(environ.get("SHOP_FAIR", "{}")))
    for name, seconds in (("shop.answer", 0.05), ("shop.summarize", 0.5)):
        add_task(app, name, seconds)
    return app


def add_task(app: Celery, name: str, seconds: float) -> None:
    """A task that holds its slot for so long unless the call says otherwise."""

    @app.task(name=name, shared=False)
    def hold(seconds=seconds):
        time.sleep(seconds)


app = make_app(os.environ) if "SHOP_BROKER" in os.environ else None
