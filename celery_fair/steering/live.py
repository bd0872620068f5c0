"""Which settings can be changed in running workers, and why the others can't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celery_fair.errors import SettingsError, did_you_mean
from celery_fair.settings import FairSettings, parsed

LIVE_SETTINGS: Final = frozenset({
    "batch_share", "aged_share", "engine_batch_share", "share_unit",
    "reserve", "reserve_min", "reserve_target", "reserve_wait_seconds",
    "batch_max_slots", "interactive_max_slots",
    "protect_backlog", "protect_wait_seconds", "protect_hold_seconds",
    "batch_max_wait_seconds", "lookahead_seconds", "sensor_interval_seconds", "hold_max_seconds",
    "yield_min_seconds", "yield_max_overhead",
    "interactive_timeout_seconds", "batch_timeout_seconds",
    "interactive_time_limit", "batch_time_limit",
    "tenant_turns", "tenant_weights", "tenant_max_running",
    "log_tasks", "mode",
})  # fmt: skip
"""What the main process of a worker reads, and nobody else."""

RESTART: Final = "set it in the app or the environment, and restart"

_AT_START = f"workers read it as they start: {RESTART} them"
_PUBLISHERS = f"publishers read it too, whom no command reaches: {RESTART} them and the workers"
_CHILDREN = f"the processes that run tasks have read it already: {RESTART} the workers"

FIXED: Final[Mapping[str, str]] = {
    "enabled": _PUBLISHERS,
    "default_kind": _PUBLISHERS,
    "queues": _PUBLISHERS,
    "kinds": _PUBLISHERS,
    "front_queues": _PUBLISHERS,
    "batch_retry_max_seconds": _CHILDREN,
    "batch_retry_budget": _CHILDREN,
    "interactive_max_backlog": _PUBLISHERS,
    "batch_max_backlog": _PUBLISHERS,
    "interactive_max_wait_seconds": _PUBLISHERS,
    "deduplicate_seconds": _PUBLISHERS,
    "state_url": _PUBLISHERS,
    "interactive_shards": _PUBLISHERS,
    "batch_shards": _PUBLISHERS,
    "tenant_hand": _PUBLISHERS,
    "tenant_hash_key": _PUBLISHERS,
    "resources": _PUBLISHERS,
    "uses": _PUBLISHERS,
    "interactive_max_running": _AT_START,
    "batch_max_running": _AT_START,
    "load_probe": _AT_START,
    "load_probe_seconds": _AT_START,
    "before_batch": _AT_START,
    "before_batch_seconds": _AT_START,
    "before_batch_on_error": _AT_START,
    "waiting_room": _AT_START,
    "record": _AT_START,
    "record_sample": _AT_START,
    "record_megabytes": _AT_START,
    "metrics_port": _AT_START,
    "metrics_host": _AT_START,
}
"""Why each of the other settings can't be changed in a running worker, and what to do."""


def known_live(name: str) -> str:
    """Return the name of a setting that can be set live; raises `SettingsError` for another."""
    if not isinstance(name, str) or not name:
        raise SettingsError([f"expected the name of a setting, got {name!r}"])
    if name in LIVE_SETTINGS:
        return name
    if name in FIXED:
        raise SettingsError([f"{name} can't be changed in a running worker: {FIXED[name]}"])
    hint = did_you_mean(name, FairSettings.model_fields)
    raise SettingsError(
        [f"there is no setting {name!r}{hint or '; docs/settings.md lists them all'}"]
    )


def read_assignment(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE`` as the environment would be read; raises `SettingsError`."""
    name, equals, value = text.partition("=")
    name = known_live(name.strip().lower())
    if not equals or not value.strip():
        raise SettingsError(
            [f"expected NAME=VALUE, got {text!r}: for instance {name}=0.3, or --unset {name}"]
        )
    return name, parsed(name, value.strip())


def lived(settings: FairSettings, values: Mapping[str, Any]) -> FairSettings:
    """The settings with values that were set live; raises `SettingsError` for any that can't be."""
    for name in values:
        known_live(name)
    return settings.replaced(values)
