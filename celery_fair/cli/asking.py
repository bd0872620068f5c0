"""Asks workers, broker and result backend for one task; each for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from celery_fair.cli.explained import explain_task
from celery_fair.cli.explanation import Explanation, Said
from celery_fair.cli.looking import look_for, oldest_in
from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask
from celery_fair.cli.seen import Look
from celery_fair.front import without_fronts
from celery_fair.observe.place import Place
from celery_fair.policy.kinds import KINDS, Kind

LOOK_SECONDS: Final = 3.0
BACKEND_SECONDS: Final = 2.0
RPC: Final = "celery.backends.rpc"
"""Its results are for who has called: nobody else may ask."""


class Asking:
    """Asks for one app; ``limit`` is the number of answers to expect, where that is known."""

    def __init__(
        self,
        app: Any,
        timeout_seconds: float,
        *,
        workers: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        self._app = app
        self._timeout = timeout_seconds
        self.nodes = list(workers)
        self.answered = False
        """Whether any worker has answered yet, with celery-fair or without."""
        self._limit = limit or len(self.nodes) or None

    def task(self, id: str, kind: Kind | None = None) -> Explanation:
        """Where a task is, and why; with nobody who answers too, if the broker shows it."""
        said = self.workers(task_id=id)
        found = explain_task(id, said, Look(), None, time.time())
        if (found.is_found and found.waits_still) or found.place is Place.RUNNING:
            return found
        look = self._look(id, said, kind)
        found = explain_task(id, said, look, None, time.time())
        if found.place in (Place.UNACKNOWLEDGED, Place.UNKNOWN) and said.reports:
            # It may have gone from one to the other in between.
            said = self.workers(task_id=id, limit=len(said.reports) + len(said.silent))
            found = explain_task(id, said, look, None, time.time())
        if found.place is Place.UNKNOWN:
            found = explain_task(id, said, look, self._backend(id), time.time())
        return found

    def workers(self, *, limit: int | None = None, **arguments: Any) -> Said:
        """What the workers say; those without celery-fair are asked in Celery's own words."""
        replies = self._ask("fair_explain", limit=limit or self._limit, **arguments)
        self.answered = self.answered or bool(replies)
        answers = Answers.of(replies)
        plain = {
            node: reply["task"]
            for node, reply in replies.items()
            if node in answers.silent and isinstance(reply, dict) and "task" in reply
        }
        queues: dict[str, frozenset[str]] = {}
        if answers.silent:
            silent = list(answers.silent)
            queues = {
                node: frozenset(queue["name"] for queue in reply)
                for node, reply in self._ask("active_queues", silent).items()
                if isinstance(reply, list)
            }
            if arguments.get("task_id") is not None:
                plain.update(self._plain_tasks(arguments["task_id"], silent))
        return Said(answers.reports, answers.silent, plain, queues)

    def _plain_tasks(self, id: str, nodes: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """What Celery's own books say; of its answer nothing but the place is looked at."""
        places = {"active": Place.RUNNING, "reserved": Place.RECEIVED}
        found: dict[str, Mapping[str, Any]] = {}
        for node, reply in self._ask("query_task", nodes, ids=[id]).items():
            entry = reply.get(id) if isinstance(reply, dict) else None
            if entry:
                place = places.get(entry[0], Place.SCHEDULED)
                found[node] = {"place": place.value, "task": entry[1].get("name"), "kind": None}
        return found

    def _ask(
        self,
        command: str,
        nodes: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        return ask(
            self._app,
            command,
            timeout_seconds=self._timeout,
            destination=nodes or self.nodes or None,
            limit=limit if nodes is None else len(nodes),
            arguments=arguments,
        )

    def _look(self, id: str, said: Said, kind: Kind | None) -> Look:
        """Twice if nothing is found: what is popped meanwhile moves the rest."""
        queues = self._queues(said, kind)
        look = Look()
        try:
            for _ in range(2):
                look = look_for(self._app, id, queues, LOOK_SECONDS)
                if look.seen is not None or not look.is_readable:
                    break
        except Exception as error:
            look.looked.append(f"the broker could not be looked at ({type(error).__name__})")
        return look

    def first_ready_at(self, said: Said, kind: Kind) -> float | None:
        """Since when the first in line of a kind waits at the broker, if that can be seen."""
        try:
            return oldest_in(self._app, self._queues(said, kind), LOOK_SECONDS)
        except Exception:  # without it the answer is as good as on any other broker
            return None

    def _queues(self, said: Said, kind: Kind | None) -> list[str]:
        """Those that this app knows, and those that workers consume; of one kind, if it is said."""
        from celery_fair.app import Fair

        fair = Fair.of(self._app)
        kinds: Sequence[Kind] = KINDS if kind is None else (kind,)
        known = (
            [queue for one in kinds for queue in fair.queues_and_shards[one]]
            if fair is not None
            else []
        )
        told = [
            queue
            for report in said.reports.values()
            for one in kinds
            for queue in report["kinds"][one]["queues"]
        ]
        others = [*self._app.amqp.queues, *(q for qs in said.plain_queues.values() for q in qs)]
        return without_fronts(dict.fromkeys([*known, *told, *(others if kind is None else ())]))

    def _backend(self, id: str) -> dict[str, Any] | None:
        """The state that the result backend has, and since when; never the result."""
        try:
            backend = self._app.backend
        except Exception:  # its client may be missing here, or its URL be meant for elsewhere
            return None
        if type(backend).__module__ == RPC:
            return None
        found: list[dict[str, Any]] = []

        def read() -> None:
            try:
                meta = backend.get_task_meta(id)
            except Exception:  # no backend, or one that can't be reached
                return
            if meta.get("status") not in (None, "PENDING"):
                found.append({"state": str(meta["status"]), "at": meta.get("date_done")})

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(BACKEND_SECONDS)
        return found[0] if found else None
