"""The replay of what observing workers have run, as plain JSON: made while somebody looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from celery_fair import KINDS
from celery_fair.integrations.flower.picture import TEXT, finite
from celery_fair.observe.counterfactual import Counterfactual, KindReplay
from celery_fair.observe.gathering import replay
from celery_fair.observe.listening import answers, reach
from celery_fair.observe.replaying import Replaying

ANSWER_SECONDS: Final = 5.0
LEFT_OUT: Final = 8
"""Settings named that no replay takes account of."""


class Replays:
    """The last replay, and a thread that makes the next: Flower's loop waits for no worker."""

    def __init__(self) -> None:
        self._replaying = Replaying(self._replay)
        self._app: Any = None
        self._reports: Mapping[str, Mapping[str, Any]] = {}
        self._silent: Mapping[str, str] = {}

    def picture(
        self,
        app: Any,
        reports: Mapping[str, Mapping[str, Any]],
        without: Sequence[str],
        now: float,
    ) -> dict[str, Any] | None:
        """What the last has come to; ``None`` where no worker observes, or none is made yet.

        ``reports`` are the facts of those heard of, ``without`` names workers that tell none.
        """
        readable = {name: facts for name, facts in reports.items() if "mode" in facts}
        self._app, self._reports = app, readable
        self._silent = dict.fromkeys(without, "")
        self._replaying.look({str(facts["mode"]) for facts in readable.values()}, now)
        return _shown(self._replaying.found)

    def _replay(self) -> Counterfactual | None:
        return replay(self._reports, self._silent, self._ask)

    def _ask(self, nodes: Sequence[str], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._app.connection_for_write() as connection:
            reach(connection)
            return answers(
                self._app,
                connection,
                "fair_observed",
                timeout=ANSWER_SECONDS,
                destination=list(nodes),
                limit=len(nodes),
                arguments=dict(arguments),
            )


def _shown(found: Counterfactual | None) -> dict[str, Any] | None:
    if found is None:
        return None
    made: dict[str, Any] = finite(
        {
            "why": _text(found.why),
            "seconds": found.seconds,
            "until": found.until,
            "tasks": found.tasks,
            "slots": found.slots,
            "left_out": [_text(name) for name in found.left_out[:LEFT_OUT]],
            "kinds": [[kind, _kind(found.of[kind])] for kind in KINDS] if found.of else [],
        }
    )
    return made


def _kind(part: KindReplay) -> dict[str, Any]:
    return {
        "tasks": part.tasks,
        "measured": _p95(part.measured),
        "replayed": _p95(part.replayed),
        "would_be": _p95(part.would_be),
        "error": part.error,
        "later_last": part.later_last,
        "why": _text(part.why),
    }


def _p95(waits: Mapping[str, float] | None) -> float | None:
    return None if waits is None else waits["p95"]


def _text(value: str | None) -> str | None:
    return None if value is None else value[:TEXT]
