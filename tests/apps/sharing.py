"""``tests.apps.mixed`` with tasks that use what all workers share: two places at ``openai``.

RESOURCES, a JSON object, says otherwise. ``i.asks`` and ``b.asks`` use it; ``i.is_refused`` is, at
its first try, and ``i.charges`` has used more than it was thought to.
"""

from __future__ import annotations

import json
import os
import time

from celery import Celery

from celery_fair import Fair, RateLimited
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.nodes.journal import recorded

PLACES = 2


def make_app(broker: Broker, **conf: object) -> Celery:
    app = mixed.make_app(broker, **conf)
    said = os.environ.get("RESOURCES")
    resources = json.loads(said) if said else {"openai": {"max_running": PLACES}}
    app.conf.fair = {
        "resources": resources,
        "uses": {"?.asks*": "openai", "i.is_refused": "openai", "i.charges": "openai"},
    }
    for prefix in ("i", "b"):
        for name, late in (("asks", False), ("asks_late", True)):

            @app.task(name=f"{prefix}.{name}", bind=True, shared=False, acks_late=late)
            def asks(self, label, seconds=0.0):
                with recorded(self, label):
                    time.sleep(seconds)

    @app.task(name="i.is_refused", bind=True, shared=False, max_retries=1)
    def is_refused(self, label):
        with recorded(self, label):
            if not self.request.retries:
                raise RateLimited(0.2)

    @app.task(name="i.charges", bind=True, shared=False, tokens=1000)
    def charges(self, label, tokens):
        with recorded(self, label):
            Fair.of(app).charge(tokens=tokens - 1)
            Fair.of(app).charge(tokens=1)

    return app


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
