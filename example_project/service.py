"""What both front ends do for a request, without a word of Flask or Django."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from celery import Celery
from celery.result import AsyncResult

from celery_fair.engine import VLLMLoad
from example_project.tasks import MODEL_URL, answer

PAGE = Path(__file__).with_name("page.html")
FAIR = {
    "batch_share": 0.2,
    "interactive_max_backlog": 40,  # what the workers answer in about half a minute
    "batch_max_backlog": 100,
    "interactive_timeout_seconds": 30,  # nobody looks at the page for longer
    # What the model serves at once, fewer than the workers have slots; two are kept for answers.
    "resources": {"model": {"max_running": 6, "interactive_reserve": 0.3}},
    "batch_shards": 8,  # or one tenant's pile hides the next one's at the broker
    "load_probe": VLLMLoad(MODEL_URL, waiting=3),  # others may fill it too
}
JOBS = {
    "tasks": ["example_project.tasks.summarize_document"],
    "actions": ["retry", "cancel"],
    "max_items": 1000,
}
MOST_LETTERS = 500


class BadRequest(ValueError):  # noqa: N818
    """Answered with 400 and this sentence."""


def read(content_type: str | None, body: bytes) -> Any:
    """Read a request's JSON; it must say that it is JSON, which no form on another site can."""
    if content_type != "application/json":
        raise BadRequest("Content-Type: expected application/json")
    try:
        return json.loads(body)
    except ValueError as error:
        raise BadRequest("expected JSON") from error


def ask(asked: Any) -> dict[str, Any]:
    """Take ``{"question": …}``; its answer is to be watched by the id."""
    question = asked.get("question") if isinstance(asked, dict) else None
    if not isinstance(question, str) or not 0 < len(question.strip()) <= MOST_LETTERS:
        raise BadRequest(f"question: expected 1 to {MOST_LETTERS} letters")
    return {"id": answer.delay(question.strip()).id}


def answer_of(app: Celery, task_id: str) -> dict[str, Any]:
    """What has become of a question."""
    found = AsyncResult(task_id, app=app)
    return {"state": found.state, "answer": found.result if found.successful() else None}


class Status:
    """What the workers say of themselves, asked once a second at most however many look."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.lock = Lock()
        self.until = 0.0
        self.last: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        """Slots, gate and backlog of all workers together, as in `celery fair status`."""
        with self.lock:
            if monotonic() > self.until:
                replies = self.app.control.broadcast("fair_status", reply=True, timeout=0.4)
                facts = [fact for reply in replies or () for fact in reply.values()]
                self.last = together([fact for fact in facts if "kinds" in fact])
                self.until = monotonic() + 1
            return self.last


def together(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum over the workers' facts."""
    return {
        "workers": len(workers),
        "protected": sum(worker["gate"]["mode"] == "protected" for worker in workers),
        "slots": sum(worker["slots"]["total"] for worker in workers),
        "reserve": sum(worker["slots"]["reserve"] for worker in workers),
        "model": of_model(workers),
        "kinds": {
            kind: of_kind([worker["kinds"][kind] for worker in workers])
            | {"for_model": sum(worker["clearing"]["waiting"][kind] for worker in workers)}
            for kind in ("interactive", "batch")
        },
    }


def of_model(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Its places, the same from each worker that could ask lately, and how full it says it is."""
    looks = [worker["resources"] for worker in workers if worker["resources"]["of"]]
    youngest = min(looks, key=lambda look: look["age_seconds"], default={"of": []})
    loads = [worker["engine"] for worker in workers if worker["engine"]["pressure"] is not None]
    return {
        "places": next((one for one in youngest["of"] if one["name"] == "model"), None),
        "engine": max(loads, key=lambda load: load["pressure"], default=None),
    }


def of_kind(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Running, waiting and the wait; what is ready at the broker is the same for all workers.

    One that can't read the broker just now, or doesn't serve the kind, knows of nothing there.
    """
    ready = [sum(part["ready"].values()) for part in parts if part["ready"] is not None]
    waits = [part["wait_seconds"]["p95"] for part in parts if part["wait_seconds"]["count"]]
    tenants = [part["tenants"]["waiting"] for part in parts if part["tenants"]]
    return {
        "running": sum(part["running"] for part in parts),
        "waiting": max(ready) + sum(part["held"] for part in parts) if ready else None,
        "wait_p95_seconds": max(waits, default=None),
        "tenants_waiting": max(tenants, default=0),
    }
