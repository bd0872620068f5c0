"""Tasks that the pool had to end, and whether one of them does that again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from celery_fair.worker import internals

KEPT = 100
SHOWN = 5
LONGEST = 128
"""Characters of an id: whoever publishes may write anything there."""


class Fatal:
    """The last tasks that ended with their child, or by their hard time limit; at most ``KEPT``.

    ``task_reject_on_worker_lost`` brings such a one back for ever.
    """

    def __init__(self) -> None:
        self._ended: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def note(self, request: Any) -> None:
        """Count it once more, unless somebody asked for its end."""
        if internals.was_asked_to_end(request):
            return
        id = "".join(filter(str.isprintable, str(request.id)[:LONGEST]))
        before = self._ended.pop(id, None)
        times = before["times"] + 1 if before else 1
        self._ended[id] = {"id": id, "task": request.task.name, "times": times}
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)

    def report(self) -> list[dict[str, Any]]:
        """The ``SHOWN`` that have ended so the most often, each with id, task and times."""
        ended = list(self._ended.values())  # a pool's thread may note one meanwhile
        return sorted(ended, key=lambda one: -one["times"])[:SHOWN]
