"""What is staged for each symptom: a worker, its load, and what one types then."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from celery_fair import QueueFull
from tests.brokers.waiting import wait_until

Load = Callable[[Any], str | None]
"""Publishes into a shop; the id of the task that is asked about, or a line to show."""


@dataclass(frozen=True)
class Stage:
    """One situation; ``settled`` is what is waited for before anything is typed."""

    commands: Sequence[str]
    load: Load = lambda shop: None
    settled: Callable[[Mapping[str, Any]], bool] = lambda facts: True
    worker: Sequence[str] = ("-c", "4")
    fair: Mapping[str, Any] = field(default_factory=dict)
    """Settings of celery-fair."""
    conf: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Celery."""
    is_plain: bool = False
    """Whether the worker's app has no Fair."""
    log: str = ""
    """What the lines of the worker's log have that are shown; one begins with a brace."""

    def environ(self) -> dict[str, str]:
        """What the worker and the commands are told."""
        return {"SHOP_FAIR": json.dumps(self.fair), "SHOP_CONF": json.dumps(self.conf)}


def publish(*loads: tuple[str, int, float]) -> Load:
    """Of each task so many, of so many seconds each; gives the id of the last one."""

    def load(shop: Any) -> str | None:
        last = None
        for name, number, seconds in loads:
            for _ in range(number):
                last = shop.tasks[f"shop.{name}"].delay(seconds).id
        return last

    return load


def facts_of(shop: Any) -> Mapping[str, Any]:
    """What the worker says of itself."""
    (reply,) = shop.control.broadcast("fair_status", reply=True, timeout=5, limit=1)
    return reply["web1@shop"]


def batch_before(shop: Any) -> str | None:
    """Long batch tasks in all the slots that they may have, and then some for people."""
    publish(("summarize", 20, 20.0))(shop)
    wait_until(lambda: facts_of(shop)["kinds"]["batch"]["running"] == 3, "batch in three slots")
    return publish(("answer", 12, 1.0))(shop)


def later(shop: Any) -> None:
    for _ in range(900):
        shop.tasks["shop.summarize"].apply_async((1.0,), countdown=3600)


def until_refused(shop: Any) -> str:
    try:
        while True:
            shop.tasks["shop.answer"].delay(1.0)
    except QueueFull as error:
        return f">>> answer.delay(question)\nQueueFull: {error}"


def started(kind: str, number: int) -> Callable[[Mapping[str, Any]], bool]:
    """So many tasks of a kind have started."""
    return lambda facts: facts["kinds"][kind]["dispatched"] >= number


STAGES: Final[dict[str, Stage]] = {
    "waits-are-short": Stage(
        [], publish(("answer", 3, 4.0)), lambda facts: sum(
            facts["kinds"]["interactive"]["finished"].values()) == 3,
        fair={"log_tasks": 1}, log='"event":"task"',
    ),
    "too-much-interactive": Stage(
        ["fair status"], publish(("summarize", 60, 0.5), ("answer", 200, 0.4)),
        started("interactive", 60),
    ),
    "batch-holds-the-slots": Stage(
        ["fair status", "fair explain {task}"], batch_before,
        started("interactive", 5), fair={"reserve": 1},
    ),
    "queue-without-worker": Stage(
        ["fair status", "fair doctor F103"], publish(("summarize", 30, 0.5)),
        worker=("-c", "4", "-Q", "celery"),
    ),
    "paused": Stage(
        ["fair pause batch", "fair explain --kind batch", "fair resume batch"],
        publish(("summarize", 30, 0.5)),
        started("batch", 2),
    ),
    "eta": Stage(
        ["fair top --once"], later, lambda facts: facts["kinds"]["batch"]["scheduled"] >= 900
    ),
    "run-twice": Stage(
        ["fair doctor --ignore F011,F122"],
        conf={"task_acks_late": True, "task_time_limit": 7200,
              "broker_transport_options": {"visibility_timeout": 3600}},
    ),
    "refused": Stage(
        ["fair status"], until_refused, started("interactive", 8),
        fair={"interactive_max_backlog": 50},
    ),
    "plain-worker": Stage(["fair status"], is_plain=True),
    "observing": Stage(["fair status", "fair mode enforce"], fair={"mode": "observe"}),
    "reserve": Stage(
        ["fair top --once"], publish(("summarize", 60, 0.5)), started("batch", 30),
    ),
}  # fmt: skip
