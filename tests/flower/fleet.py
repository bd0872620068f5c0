"""Workers that don't exist: their events, published as real ones would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery

from tests.brokers.broker import Broker
from tests.flower.process import FlowerProcess


class Fleet:
    """Publishes the events of any number of workers on one connection; a context manager."""

    def __init__(self, broker: Broker) -> None:
        self._app = Celery("fleet", set_as_current=False)
        self._app.conf.update(broker.conf())

    def __enter__(self) -> Fleet:
        self._connection = self._app.connection_for_write()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.release()
        self._app.close()

    def send(self, worker: str, type: str, **fields: Any) -> None:
        events = self._app.events.Dispatcher(
            self._connection, hostname=worker, enabled=True, buffer_while_offline=False
        )
        events.send(type, **fields)
        events.close()

    def tell(self, facts: Mapping[str, Mapping[str, Any]], every: float = 30.0) -> None:
        """Tell the facts of these workers; they stay known for a minute and a half."""
        for worker, told in facts.items():
            self.send(worker, "worker-fair", fair_facts=told, fair_tasks=[], fair_every=every)

    def introduce(
        self,
        flower: FlowerProcess,
        facts: Mapping[str, Mapping[str, Any]],
        user: str | None = None,
    ) -> None:
        """Tell the facts until Flower has heard them: it binds its queue when it is long up."""

        def heard() -> bool:
            self.tell(facts)
            known = flower.data(user)
            return len(known["workers"]) + len(known["unreadable"]) >= len(facts)

        flower.wait_for(heard, f"hearing of {len(facts)} workers", timeout=20)
