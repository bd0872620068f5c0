"""What can be set live reaches what workers share."""

from __future__ import annotations

import json

from celery import Celery

from celery_fair import Fair
from celery_fair.resources.redis_store import RedisStore
from celery_fair.steering.live import lived


def test_a_share_that_is_set_live_is_that_of_resources() -> None:
    app = Celery("shop", broker="redis://localhost:1/0", set_as_current=False)
    fair = Fair(app, resources={"gpu": {"max_running": 8}}, batch_max_running=9)
    store = fair.resources.store
    assert isinstance(store, RedisStore)
    fair.adopt(lived(fair.settings, {"batch_share": 0.4}))
    assert {rule.batch_share for rule in fair.resources.rules.values()} == {0.4}
    assert {rule["share"] for rule in json.loads(store._sent).values()} == {0.4}
    fair.uninstall()


def test_without_resources_there_is_nothing_to_follow() -> None:
    fair = Fair(Celery("shop", broker="memory://", set_as_current=False))
    fair.adopt(fair.settings)
    assert not fair.resources.is_set
    fair.uninstall()
