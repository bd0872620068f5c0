"""What Celery is given instead of its own, by itself."""

from __future__ import annotations

from types import SimpleNamespace

from celery import Celery
from kombu import Queue

from celery_fair.worker.hooks import Hooks


def test_a_known_queue_that_is_added_is_consumed_by_whoever_consumes_next():
    """Celery before 5.7 only gives it to the present consumer, as ``add`` does here."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.task_queues = [Queue("celery"), Queue("imports"), Queue("others")]
    app.amqp.queues.select(["celery"])
    timer = SimpleNamespace(call_after=lambda seconds, callback: None)
    hooks, added = Hooks(SimpleNamespace(app=app, timer=timer), None), []
    hooks._add_task_queue(added.append, "imports")
    assert added == ["imports"]
    assert set(app.amqp.queues.consume_from) == {"celery", "imports"}
