"""Settings of what all workers share: queues by tenant, resources, an engine, a team's rules."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from pydantic import SecretStr, ValidationInfo, field_serializer, field_validator

from celery_fair.policy.hands import MOST_SHARDS
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.settings import ResourceSettings, resources_from, uses_from
from celery_fair.settings.fields import Seconds, Settings, setting

SECRETS: Final = ("tenant_hash_key",)
"""Settings whose value stands in no error, reply or log."""


def keyed_hash(text: str, key: SecretStr) -> str:
    """Half of a text's HMAC-SHA256, in hex."""
    return hmac.new(key.get_secret_value().encode(), text.encode(), "sha256").hexdigest()[:32]


class SharingSettings(Settings):
    """Who waits behind whom, and what there is for all workers together."""

    interactive_shards: int = setting(
        1,
        f"a number of queues from 1 to {MOST_SHARDS}",
        "16 keeps tenants apart; 1 leaves the kind in its queue",
        ge=1,
        le=MOST_SHARDS,
    )
    batch_shards: int = setting(
        1,
        f"a number of queues from 1 to {MOST_SHARDS}",
        "16 keeps tenants apart; 1 leaves the kind in its queue",
        ge=1,
        le=MOST_SHARDS,
    )
    tenant_hand: int | None = setting(
        None,
        f"a number of shards from 1 to {MOST_SHARDS}, or none",
        "none gives each tenant a quarter of a kind's shards, from 1 to 4",
        ge=1,
        le=MOST_SHARDS,
    )
    tenant_hash_key: SecretStr | None = setting(
        None,
        "a secret of at least 16 characters, or none",
        "with one a tenant travels as its keyed hash; all publishers need the same",
        min_length=16,
    )

    tenant_turns: bool = setting(
        True,
        "true or false",
        "false runs what is held in the order of its first publish, whosever it is",
    )
    tenant_weights: dict[str, float] = setting(
        {},
        "a dict from tenants (* and ? match) to numbers from 0.001 to 1000; with tenant_hash_key "
        "from names or '*'",
        "for instance {'acme': 3, '*': 1}",
    )
    tenant_max_running: int | None = setting(
        None,
        "a number of tasks from 1, or none",
        "so many of a tenant's tasks of a kind run in the fleet while others wait; none sets no "
        "limit",
        ge=1,
    )

    resources: dict[str, ResourceSettings] = setting(
        {},
        "a dict from names to dicts of max_running, requests_per_minute, tokens_per_minute, "
        "interactive_reserve and burst_seconds",
        "for instance {'openai': {'max_running': 8}}",
    )
    uses: dict[str, tuple[str, ...]] = setting(
        {},
        "a dict from task names (* and ? match) to the name of a resource, or a list of names",
        "for instance {'reports.*': 'openai'}",
    )
    interactive_max_running: int | None = setting(
        None,
        "a number of tasks from 1, or none",
        "so many run at once in all workers together; none sets no limit",
        ge=1,
    )
    batch_max_running: int | None = setting(
        None,
        "a number of tasks from 1, or none",
        "so many run at once in all workers together; none sets no limit",
        ge=1,
    )

    waiting_room: int = setting(
        256,
        "a number of messages from 1 to 10000",
        "so many of a kind wait in a worker for places, budgets or before_batch; what stands "
        "behind them in a queue isn't seen",
        ge=1,
        le=10_000,
    )

    load_probe: str | Callable[[], Any] | None = setting(
        None,
        "a callable, its dotted name, or none",
        "for instance VLLMLoad('http://vllm:8000') of celery_fair.engine, or 'shop.engine.probe'",
    )
    load_probe_seconds: Seconds = setting(
        1.0, "seconds from 0.1", "each worker asks its probe so often", ge=0.1
    )
    engine_batch_share: float | None = setting(
        None,
        "a share over 0, up to batch_share, or none",
        "what is left of batch_share at the least while the engine queues; none means a quarter",
        gt=0.0,
        le=0.5,
    )
    before_batch: str | Callable[[Any], Any] | None = setting(
        None,
        "a callable, its dotted name, or none",
        "for instance 'shop.rules.eligible': it is given a HeldTask before a slot is",
    )
    before_batch_seconds: Seconds = setting(
        1.0,
        "seconds over 0, 60 at most",
        "a call of before_batch that takes longer counts as failed",
        gt=0.0,
        le=60.0,
    )
    before_batch_on_error: Literal["admit", "delay", "refuse"] = setting(
        "delay",
        "'admit', 'delay' or 'refuse'",
        "what becomes of a task for which before_batch fails; 'delay' asks again in ten seconds",
    )

    @field_validator("resources", mode="before")
    @classmethod
    def _each_resource_is_known(cls, value: Any) -> Any:
        return resources_from(value)

    @field_validator("uses", mode="before")
    @classmethod
    def _each_use_has_names(cls, value: Any) -> Any:
        return uses_from(value)

    @field_validator("load_probe", "before_batch")
    @classmethod
    def _probe_has_a_name(cls, value: str | Callable[[], Any] | None) -> Any:
        if isinstance(value, str) and not re.fullmatch(r"\w+(\.\w+)*[.:]\w+(\.\w+)*", value):
            raise ValueError
        return value

    @field_serializer("load_probe", "before_batch", when_used="json")
    def _probe_by_name(self, value: str | Callable[[], Any] | None) -> str | None:
        if value is None or isinstance(value, str):
            return value
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"

    @field_validator("engine_batch_share")
    @classmethod
    def _engine_lowers(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and value > info.data.get("batch_share", 0.5):
            raise ValueError
        return value

    @field_validator("tenant_weights")
    @classmethod
    def _weights_count(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        """What travels hashed matches no pattern but the one for all.

        By a weight of next to nothing clocks would go on so far that seconds are lost in them.
        """
        hashed = info.data.get("tenant_hash_key") is not None
        if any(not name or not 0.001 <= weight <= 1000 for name, weight in value.items()) or (
            hashed and any(set(name) & set("*?[") for name in value if name != "*")
        ):
            raise ValueError
        return value

    @property
    def max_running(self) -> Mapping[Kind, int | None]:
        """How many tasks of each kind may run in all workers together."""
        return {INTERACTIVE: self.interactive_max_running, BATCH: self.batch_max_running}

    @property
    def shards(self) -> Mapping[Kind, int]:
        """How many shards each kind has; one is none."""
        return {INTERACTIVE: self.interactive_shards, BATCH: self.batch_shards}

    def as_travels(self, tenant: str) -> str:
        """A tenant's name as messages have it; that for all, ``*``, is none."""
        key = self.tenant_hash_key
        return tenant if key is None or tenant == "*" else keyed_hash(tenant, key)
