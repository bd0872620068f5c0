"""One consumer to Celery, a lane a kind behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any

from celery_fair.policy.kinds import Kind
from celery_fair.worker.adopting import adopt
from celery_fair.worker.windows import Window


class LaneConsumer:
    """Stands where Celery's ``TaskConsumer`` stood: what it is asked goes to the lane of the queue.

    A queue belongs to one lane, because kombu calls back by queue *name*.
    """

    def __init__(
        self,
        parts: Mapping[Kind, Any],
        windows: Mapping[Kind, Window],
        kind_of_queue: Callable[[str], Kind],
        on_queues_changed: Callable[[], None],
    ) -> None:
        self.parts = parts
        self._windows = windows
        self.on_message: Callable[[Any], None] | None = None
        self.receiving: Any = None
        """The message that Celery makes a request of now, or the last one."""
        self._kind_of_queue = kind_of_queue
        self._on_queues_changed = on_queues_changed

    @property
    def channel(self) -> Any:
        """The channel of the first lane, which is the connection's default one."""
        return next(iter(self.parts.values())).channel

    @property
    def queues(self) -> list[Any]:
        return [queue for part in self._distinct() for queue in part.queues]

    def consume(self, no_ack: bool | None = None) -> None:
        with self.frozen():
            for part in self._distinct():
                part.consume(no_ack)

    def cancel(self) -> None:
        for window in self._windows.values():
            window.finish()
            window.freeze()
        for part in self._distinct():
            part.cancel()

    close = cancel

    def rest(self) -> None:
        """Stop consuming, and perhaps consume again later; what is under way is still delivered.

        By another consumer of the connection, where that has taken over the queue.
        """
        for window in self._windows.values():
            window.freeze()
        for part in self._distinct():
            part.cancel()
        for window in self._windows.values():
            window.rest()

    def consuming_from(self, queue: Any) -> bool:
        return any(part.consuming_from(queue) for part in self._distinct())

    def add_queue(self, queue: Any) -> Any:
        """Add a queue at run time, declared as Celery's own consumer does it."""
        with self.frozen():
            adopt(self.channel.connection.client, [queue])
            bound = self._part(queue.name).add_queue(queue)
            bound.declare()
        return bound

    def cancel_by_queue(self, queue: Any) -> None:
        name = getattr(queue, "name", queue)
        with self.frozen():
            for part in self._distinct():
                part.cancel_by_queue(name)

    def purge(self) -> int:
        return sum(part.purge() for part in self._distinct())

    def qos(self, **_: Any) -> None:
        """Ignored: each lane's window is its own."""

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the windows as they are while Celery waits for the broker."""
        for window in self._windows.values():
            window.freeze()
        try:
            yield
        finally:
            for window in self._windows.values():
                window.thaw()
            self._on_queues_changed()

    def _part(self, queue: str) -> Any:
        return self.parts[self._kind_of_queue(queue)]

    def _distinct(self) -> Iterable[Any]:
        return dict.fromkeys(self.parts.values())


class WorkerQoS:
    """Stands where ``kombu.common.QoS`` stood, for the loop that has taken it once and for all.

    Celery raises one shared count for each ETA task and lowers it when it fires. In lanes a
    scheduled request is known by its lane and takes no credit, so that there is nothing to raise:
    the count is a figure for ``inspect stats`` that is never sent. While ``of_celery`` is there, it
    is that one's.
    """

    def __init__(self, on_scheduled: Callable[[], None], of_celery: Any = None) -> None:
        self.of_celery = of_celery
        self._shown = 0
        self._on_scheduled = on_scheduled
        self._mutex: Any = RLock()  # Celery's ``Evloop`` puts another in its place

    @property
    def value(self) -> int:
        return self._shown if self.of_celery is None else int(self.of_celery.value)

    @value.setter
    def value(self, count: int) -> None:
        if self.of_celery is None:
            self._shown = count
        else:
            self.of_celery.value = count

    @property
    def prev(self) -> int | None:
        return self._shown if self.of_celery is None else self.of_celery.prev

    def show(self, count: int) -> None:
        """Set the figure; equal to ``prev``, so that the event loop never sends it."""
        self._shown = count

    def increment_eventually(self, n: int = 1) -> int:
        if self.of_celery is not None:
            return int(self.of_celery.increment_eventually(n))
        self._on_scheduled()
        return self._shown

    def decrement_eventually(self, n: int = 1) -> int:
        if self.of_celery is not None:
            return int(self.of_celery.decrement_eventually(n))
        return self._shown

    def update(self) -> int:
        return self._shown if self.of_celery is None else int(self.of_celery.update())

    def set(self, pcount: int) -> int:
        return pcount if self.of_celery is None else int(self.of_celery.set(pcount))
