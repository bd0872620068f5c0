"""Settings that say what is interactive and what batch, and what is done about it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from celery_fair.policy.kinds import Kind
from celery_fair.settings.fields import Settings, setting


class KindSettings(Settings):
    """Which tasks and queues are of which kind."""

    enabled: bool = setting(True, "true or false", "false takes celery-fair out altogether")
    mode: Literal["enforce", "observe"] = setting(
        "enforce", "'enforce' or 'observe'", "'observe' keeps Celery's order and only counts"
    )
    default_kind: Kind = setting(
        "interactive",
        "'interactive' or 'batch'",
        "it is the kind of tasks and queues that nobody classified",
    )
    queues: dict[Kind, list[str]] = setting(
        {},
        "a dict from 'interactive' and/or 'batch' to a list of queue names, none of them twice",
        "for instance {'batch': ['reports', 'imports']}",
    )
    kinds: dict[str, Kind] = setting(
        {},
        "a dict from task names (* and ? match) to 'interactive' or 'batch'",
        "for instance {'reports.*': 'batch'}",
    )

    @field_validator("queues", mode="before")
    @classmethod
    def _tuples_are_lists(cls, value: Any) -> Any:
        """Take a tuple of queue names for a list: in a settings module it says the same."""
        if not isinstance(value, dict):
            return value
        return {
            kind: list(names) if isinstance(names, tuple) else names
            for kind, names in value.items()
        }

    @field_validator("queues")
    @classmethod
    def _one_lane_each(cls, value: dict[Kind, list[str]]) -> dict[Kind, list[str]]:
        names = [name for listed in value.values() for name in listed]
        if not all(value.values()) or not all(names) or len(names) != len(set(names)):
            raise ValueError
        return value
