"""Tasks that end without a slot: revoked or expired, as they arrive or while they wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import signals

from celery_fair.app import Fair
from celery_fair.headers import FairHeader
from celery_fair.observe.counts import Counts
from celery_fair.observe.endings import EXPIRED, REVOKED
from celery_fair.observer import TaskInfo


class Drops:
    """Counts what Celery discards, by its own signal: most of it never comes to a lane."""

    def __init__(
        self,
        fair: Fair,
        counts: Counts,
        copy_dropped: Callable[[str, str, object], None] = lambda id, copy, attempt: None,
    ) -> None:
        self._fair = fair
        self._copy_dropped = copy_dropped
        self._counts = counts
        signals.task_revoked.connect(self._dropped, dispatch_uid=self._uid)

    def close(self) -> None:
        signals.task_revoked.disconnect(dispatch_uid=self._uid)

    @property
    def _uid(self) -> str:  # Celery < 5.7 takes the methods of two instances for one
        return f"celery_fair.drops.{id(self)}"

    def _dropped(
        self,
        sender: Any = None,
        request: Any = None,
        terminated: bool = False,
        expired: bool = False,
        **_: Any,
    ) -> None:
        """A task was revoked; one that was terminated had a slot, which tells of its end."""
        if terminated or request is None or getattr(sender, "app", None) is not self._fair.app:
            return
        outcome = EXPIRED if expired else REVOKED
        header = FairHeader.read(request.headers)
        queue = (request.delivery_info or {}).get("routing_key")
        # As a lane is the queue's, whatever the header says.
        default = header.kind if header else self._fair.settings.default_kind
        kind = self._fair.lanes.get(queue) or default
        self._counts.dropped[kind][outcome] += 1
        if header is not None and header.once is not None:
            self._copy_dropped(request.id, header.once, request.retries)
        observers = self._fair.observers
        if "dropped" in observers.hooks:
            ready_at = header.ready_at if header else None
            observers.tell(
                "dropped",
                TaskInfo(kind, sender.name, request.id, queue, ready_at, outcome=outcome),
            )
