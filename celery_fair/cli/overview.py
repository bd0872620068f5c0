"""What the workers' reports say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_fair.observe.total import total

__all__ = ("Answers", "total")


@dataclass(frozen=True, slots=True)
class Answers:
    """The replies to ``fair_status`` and the like: reports, and what the others said instead."""

    reports: Mapping[str, dict[str, Any]]
    silent: Mapping[str, str]

    @classmethod
    def of(cls, replies: Mapping[str, Any]) -> Answers:
        reports: dict[str, dict[str, Any]] = {}
        silent: dict[str, str] = {}
        for node, reply in sorted(replies.items()):
            if isinstance(reply, dict) and "kinds" in reply:
                reports[node] = reply
            else:
                silent[node] = reason(reply)
        return cls(reports, silent)


def reason(reply: Any) -> str:
    """Why a worker that has answered doesn't do so as celery-fair."""
    said = reply.get("error") if isinstance(reply, dict) else reply
    if "KeyError('fair_" in str(said):  # Celery's answer to an unknown command
        return "celery-fair is not installed there"
    if "fair_explain" in str(said):
        return "celery-fair is not installed there, or an older version of it"
    return str(said)
