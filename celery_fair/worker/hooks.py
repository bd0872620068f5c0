"""What Celery is given instead of its own: put where the task strategies will look it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import Any

from celery_fair.worker import internals
from celery_fair.worker.adopting import adopt
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.fronts import WorkerFronts
from celery_fair.worker.observing import Observing
from celery_fair.worker.shards import WorkerShards


class Hooks:
    """Wraps methods of one ``Consumer`` and its pool, on the instances, before ``Tasks`` starts.

    A strategy captures ``on_task_request``, ``pool.apply_async``, ``apply_eta_task`` and the two
    ``_limit_*`` when it is made, so that later is too late.
    """

    def __init__(self, c: Any, dispatcher: Dispatcher) -> None:
        self._c = c
        self._dispatcher = dispatcher
        self._shards = WorkerShards(c)
        self._fronts = WorkerFronts(c, self._shards)
        self._replaced: list[tuple[str, Any]] = []
        self.on_lost: Callable[[], None] = lambda: None

    def install(self) -> None:
        """Count what passes by, and know of what comes and goes."""
        c, pool, dispatcher = self._c, self._c.pool, self._dispatcher
        c.update_strategies = _around(self._update_strategies, c.update_strategies)
        c.add_task_queue = _around(self._add_task_queue, c.add_task_queue)
        c.cancel_task_queue = _around(self._cancel_task_queue, c.cancel_task_queue)
        c.on_close = _around(self._on_close, c.on_close)
        c.blueprint.on_close = _around(self._on_stop, c.on_close)
        pool.apply_async = _around(dispatcher.apply_async, pool.apply_async)
        if c.hub is not None:
            c.hub.reset = _around(self._reset_hub, c.hub.reset)
        internals.process_parked_with(c.controller, dispatcher.process_task)
        c.on_connection_error_after_connected = _around(
            self._on_connection_error, c.on_connection_error_after_connected
        )

    def enforce(self) -> None:
        """Hold what arrives, and know what waits for its time or its rate."""
        self.observe(self._dispatcher)
        for name in ("apply_eta_task", "_limit_task", "_limit_post_eta"):
            wrapper = getattr(self, f"_{name.lstrip('_')}")
            self._replace(name, _around(wrapper, getattr(self._c, name)))

    def observe(self, receiver: Dispatcher | Observing) -> None:
        """Have ``receiver`` given what arrives, and leave all else to Celery."""
        while self._replaced:
            name, before = self._replaced.pop()
            setattr(self._c, name, before)
        self._replace("on_task_request", receiver.on_task_request)

    def _replace(self, name: str, value: Callable[..., Any]) -> None:
        self._replaced.append((name, getattr(self._c, name)))
        setattr(self._c, name, value)

    def _update_strategies(self, update: Callable[[], None]) -> None:
        """What ``Tasks.start`` does first: after it, queues are declared and QoS is chosen."""
        self._shards.add_all()
        adopt(self._c.connection, self._c.app.amqp.queues.consume_from.values())
        self._fronts.add_all()  # of queues as the broker has them
        with self._received_events():
            update()

    def _add_task_queue(
        self, add: Callable[..., Any], queue: str, *args: Any, **options: Any
    ) -> None:
        """Celery before 5.7 leaves a queue that it knows out of those that it is to consume.

        So the next connection would be without it, and the consumer of the other mode.
        """
        queues = self._c.app.amqp.queues
        if queue in queues:
            queues.select_add(queues[queue])
        add(queue, *args, **options)
        self._fronts.changed()

    def _cancel_task_queue(self, cancel: Callable[[str], Any], queue: str) -> None:
        cancel(queue)
        self._fronts.changed()

    @contextmanager
    def _received_events(self) -> Iterator[None]:
        """Have strategies send ``task-received`` by way of us; all else goes past us."""
        events = self._c.event_dispatcher
        if events is None:
            yield
            return
        events.send = partial(self._send_received, events.groups, events.send)
        try:
            yield
        finally:
            del events.send

    def _send_received(
        self, groups: set[str] | None, send: Callable[..., None], type: str, **fields: Any
    ) -> None:
        """Say in Celery's own event what Flower shows in columns; fields it doesn't know it keeps.

        Never an event of ours about a task: its type would become the task's state.
        """
        if groups and "task" not in groups:
            return  # as ``send`` would, a call later: nobody has asked for events of tasks
        message = getattr(self._c.task_consumer, "receiving", None)
        if message is not None:
            fields["fair_kind"] = message.fair_lane.kind
            fields["fair_queue"] = internals.queue_of(message)
        send(type, **fields)

    def _apply_eta_task(self, apply: Callable[[Any], Any], request: Any) -> None:
        internals.message_of(request).fair_lane.due()
        apply(request)

    def _limit_task(self, limit: Callable[..., Any], request: Any, *args: Any) -> Any:
        internals.message_of(request).fair_lane.limited += 1
        request.fair_limited = True
        return limit(request, *args)

    def _limit_post_eta(self, limit: Callable[..., Any], request: Any, *args: Any) -> Any:
        internals.message_of(request).fair_lane.due()
        return self._limit_task(limit, request, *args)

    def _reset_hub(self, reset: Callable[[], None]) -> None:
        """A connection was lost, and Celery's loop forgets all that it was reading."""
        internals.finish_results(self._c.hub)
        reset()

    def _on_connection_error(self, handle: Callable[[Any], None], error: Any) -> None:
        """Hold nothing more, before Celery cleans up what is left of the connection."""
        self.on_lost()
        handle(error)

    def _on_stop(self, close: Callable[[], None]) -> None:
        """The worker stops; Celery's blueprint has bound its ``on_close`` for that early."""
        if not internals.is_stopping_cold():
            internals.hear_what_has_begun(self._c.pool, self._c.hub)
        close()

    def _on_close(self, close: Callable[[], None]) -> None:
        """Celery's own ``on_close`` flushes the pool."""
        with internals.running_jobs_kept(self._c.pool):
            close()
        self._dispatcher.flushed()


def _around(wrapper: Callable[..., Any], wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """``wrapper`` with ``wrapped`` as first argument, under its name: kombu's timers show it."""
    return update_wrapper(partial(wrapper, wrapped), wrapped)
