"""The settings: read once, checked whole, frozen."""

from __future__ import annotations

import hmac
import json
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, cast, get_args

from kombu.utils.url import maybe_sanitize_url
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from celery_fair.errors import FairWarning, SettingsError, did_you_mean
from celery_fair.policy import PolicySettings
from celery_fair.policy.hands import MOST_SHARDS
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.settings import ResourceSettings, resources_from, uses_from

#: Two underscores: one would meet click's own variables of the ``celery fair`` commands, and those
#: that Kubernetes injects for a service called celery-fair.
ENV_PREFIX: Final = "CELERY_FAIR__"

#: A sensor that reads more often than this would be felt by the broker.
MAX_READS_PER_SECOND: Final = 4

DEFAULT: Final = "default"
LIVE: Final = "live"
"""Sources of a value, beside the names of those that a team has given: see `FairSettings.source`.
"""

SECRETS: Final = ("tenant_hash_key",)
"""Settings whose value stands in no error, reply or log."""

Seconds = float
T = TypeVar("T")


def keyed_hash(text: str, key: SecretStr) -> str:
    """Half of a text's HMAC-SHA256, in hex."""
    return hmac.new(key.get_secret_value().encode(), text.encode(), "sha256").hexdigest()[:32]


def _setting(default: T, expected: str, cure: str, **limits: Any) -> T:
    """A field whose error reads "expected <expected>, got …: <cure>"."""
    field: T = Field(
        default=default, description=expected, json_schema_extra={"cure": cure}, **limits
    )
    return field


class FairSettings(BaseModel):
    """Everything that can be set, with its default; ``docs/settings.md`` has the reasons."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    enabled: bool = _setting(True, "true or false", "false takes celery-fair out altogether")
    mode: Literal["enforce", "observe"] = _setting(
        "enforce", "'enforce' or 'observe'", "'observe' keeps Celery's order and only counts"
    )
    default_kind: Kind = _setting(
        "interactive",
        "'interactive' or 'batch'",
        "it is the kind of tasks and queues that nobody classified",
    )
    queues: dict[Kind, list[str]] = _setting(
        {},
        "a dict from 'interactive' and/or 'batch' to a list of queue names, none of them twice",
        "for instance {'batch': ['reports', 'imports']}",
    )
    kinds: dict[str, Kind] = _setting(
        {},
        "a dict from task names (* and ? match) to 'interactive' or 'batch'",
        "for instance {'reports.*': 'batch'}",
    )
    batch_share: float = _setting(0.2, "a share in (0, 0.5]", "0.1 to 0.3 is usual", gt=0.0, le=0.5)
    aged_share: float | None = _setting(
        None,
        "a share from batch_share to 0.5, or none",
        "none means twice batch_share, 0.5 at most",
        gt=0.0,
        le=0.5,
    )
    share_unit: Literal["seconds", "tasks"] = _setting(
        "seconds", "'seconds' or 'tasks'", "'seconds' shares slot time, 'tasks' takes turns"
    )
    reserve: NonNegativeInt | Literal["auto"] = _setting(
        "auto", "a number of slots from 0, or 'auto'", "'auto' follows the load"
    )
    reserve_min: int = _setting(
        1, "a number of slots from 0", "1 keeps a slot free wherever there are two", ge=0
    )
    reserve_target: float = _setting(
        0.05,
        "a probability in (0, 1)",
        "0.05 lets one interactive task in twenty find no free slot",
        gt=0.0,
        lt=1.0,
    )
    reserve_wait_seconds: Seconds | None = _setting(
        None,
        "seconds from 0, or none",
        "none means a quarter of an interactive task's run time, at least 0.1",
        ge=0.0,
    )
    batch_max_slots: int | None = _setting(
        None, "a number of slots from 1, or none", "none sets no hard ceiling", ge=1
    )
    interactive_max_slots: int | None = _setting(
        None, "a number of slots from 1, or none", "none sets no hard ceiling", ge=1
    )
    protect_backlog: int = _setting(
        10, "a number of tasks from 0", "10 waiting interactive tasks close the gate", ge=0
    )
    protect_wait_seconds: Seconds = _setting(
        0.3,
        "seconds from 0.05",
        "0.2 to 0.5 is usual; under 0.05 the gate would follow noise",
        ge=0.05,
    )
    protect_hold_seconds: Seconds = _setting(
        0.25, "seconds from 0", "0.25 keeps the gate from fluttering", ge=0.0
    )
    batch_max_wait_seconds: Seconds | None = _setting(
        None, "seconds over 0, or none", "none means that batch doesn't age", gt=0.0
    )
    lookahead_seconds: Seconds = _setting(
        0.05, "seconds from 0", "0.05 covers a round trip to the broker", ge=0.0
    )
    sensor_interval_seconds: Seconds = _setting(
        0.25,
        f"seconds from {1 / MAX_READS_PER_SECOND}",
        f"a worker reads its broker at most {MAX_READS_PER_SECOND} times a second",
        ge=1 / MAX_READS_PER_SECOND,
    )
    hold_max_seconds: Seconds = _setting(
        30.0,
        "seconds from 1",
        "stay well under the broker's visibility or consumer timeout",
        ge=1.0,
    )

    front_queues: bool = _setting(
        True,
        "true or false",
        "false sends nothing more to the front of a queue; workers still consume what is there",
    )

    batch_retry_max_seconds: Seconds = _setting(
        600.0,
        "seconds over 0",
        "the delay of a batch task's retries doubles up to it; a longer default_retry_delay stays",
        gt=0.0,
    )
    batch_retry_budget: float | None = _setting(
        0.2,
        "a part of first attempts in (0, 1], or none",
        "0.2 lets one batch task in six be a retry, none lets all that fail run again",
        gt=0.0,
        le=1.0,
    )

    yield_min_seconds: Seconds = _setting(
        1.0,
        "seconds from 0.1",
        "a batch task is asked to yield only after it has run for so long",
        ge=0.1,
    )
    yield_max_overhead: float = _setting(
        0.05,
        "a part of run time in (0, 1]",
        "0.05 asks a task that takes 1 s to set up only after 20 s",
        gt=0.0,
        le=1.0,
    )

    interactive_timeout_seconds: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "3 to 5 is usual; a task that has waited for longer fails with QueueTimeout, and isn't run",
        gt=0.0,
    )
    batch_timeout_seconds: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "600 is usual; a task that has waited for longer fails with QueueTimeout, and isn't run",
        gt=0.0,
    )
    interactive_time_limit: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "a task's own time_limit beats it; none leaves Celery's task_time_limit",
        gt=0.0,
    )
    batch_time_limit: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "a task's own time_limit beats it; none leaves Celery's task_time_limit",
        gt=0.0,
    )

    interactive_max_backlog: int | None = _setting(
        None,
        "a number of tasks from 1, or none",
        "while so many wait, publishing one more raises QueueFull; none refuses nothing",
        ge=1,
    )
    batch_max_backlog: int | None = _setting(
        None,
        "a number of tasks from 1, or none",
        "while so many wait, publishing one more raises QueueFull; none refuses nothing",
        ge=1,
    )
    interactive_max_wait_seconds: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "publishing what would wait for longer, by what workers report, raises QueueFull; none "
        "refuses nothing",
        gt=0.0,
    )

    deduplicate_seconds: Seconds | None = _setting(
        None,
        "seconds over 0, or none",
        "a request that is sent again runs once, and for so long after it the same result answers; "
        "none runs it each time",
        gt=0.0,
    )
    state_url: str | None = _setting(
        None,
        "the URL of a Redis, or none",
        "none keeps state in the broker if it is a Redis, else in the result backend",
        min_length=1,
    )

    interactive_shards: int = _setting(
        1,
        f"a number of queues from 1 to {MOST_SHARDS}",
        "16 keeps tenants apart; 1 leaves the kind in its queue",
        ge=1,
        le=MOST_SHARDS,
    )
    batch_shards: int = _setting(
        1,
        f"a number of queues from 1 to {MOST_SHARDS}",
        "16 keeps tenants apart; 1 leaves the kind in its queue",
        ge=1,
        le=MOST_SHARDS,
    )
    tenant_hand: int | None = _setting(
        None,
        f"a number of shards from 1 to {MOST_SHARDS}, or none",
        "none gives each tenant a quarter of a kind's shards, from 1 to 4",
        ge=1,
        le=MOST_SHARDS,
    )
    tenant_hash_key: SecretStr | None = _setting(
        None,
        "a secret of at least 16 characters, or none",
        "with one a tenant travels as its keyed hash; all publishers need the same",
        min_length=16,
    )

    tenant_turns: bool = _setting(
        True,
        "true or false",
        "false runs what is held in the order of its first publish, whosever it is",
    )
    tenant_weights: dict[str, float] = _setting(
        {},
        "a dict from tenants (* and ? match) to numbers from 0.001 to 1000; with tenant_hash_key "
        "from names or '*'",
        "for instance {'acme': 3, '*': 1}",
    )
    tenant_max_running: int | None = _setting(
        None,
        "a number of tasks from 1, or none",
        "so many of a tenant's tasks of a kind run in the fleet while others wait; none sets no "
        "limit",
        ge=1,
    )

    resources: dict[str, ResourceSettings] = _setting(
        {},
        "a dict from names to dicts of max_running, requests_per_minute, tokens_per_minute, "
        "interactive_reserve and burst_seconds",
        "for instance {'openai': {'max_running': 8}}",
    )
    uses: dict[str, tuple[str, ...]] = _setting(
        {},
        "a dict from task names (* and ? match) to the name of a resource, or a list of names",
        "for instance {'reports.*': 'openai'}",
    )
    interactive_max_running: int | None = _setting(
        None,
        "a number of tasks from 1, or none",
        "so many run at once in all workers together; none sets no limit",
        ge=1,
    )
    batch_max_running: int | None = _setting(
        None,
        "a number of tasks from 1, or none",
        "so many run at once in all workers together; none sets no limit",
        ge=1,
    )

    load_probe: str | Callable[[], Any] | None = _setting(
        None,
        "a callable, its dotted name, or none",
        "for instance VLLMLoad('http://vllm:8000') of celery_fair.engine, or 'shop.engine.probe'",
    )
    load_probe_seconds: Seconds = _setting(
        1.0, "seconds from 0.1", "each worker asks its probe so often", ge=0.1
    )
    engine_batch_share: float | None = _setting(
        None,
        "a share over 0, up to batch_share, or none",
        "what is left of batch_share at the least while the engine queues; none means a quarter",
        gt=0.0,
        le=0.5,
    )
    before_batch: str | Callable[[Any], Any] | None = _setting(
        None,
        "a callable, its dotted name, or none",
        "for instance 'shop.rules.eligible': it is given a HeldTask before a slot is",
    )
    before_batch_seconds: Seconds = _setting(
        1.0,
        "seconds over 0, 60 at most",
        "a call of before_batch that takes longer counts as failed",
        gt=0.0,
        le=60.0,
    )
    before_batch_on_error: Literal["admit", "delay", "refuse"] = _setting(
        "delay",
        "'admit', 'delay' or 'refuse'",
        "what becomes of a task for which before_batch fails; 'delay' asks again in ten seconds",
    )

    log_tasks: float = _setting(
        0.0,
        "a part of all tasks, from 0 to 1",
        "1 writes a line of JSON for each task that ends, 0.01 for one in a hundred, 0 for none",
        ge=0.0,
        le=1.0,
    )

    metrics_port: int | None = _setting(
        None,
        "a port from 1 to 65535, or none",
        "none serves no metrics; `celery fair exporter` serves those of all workers",
        ge=1,
        le=65535,
    )
    metrics_host: str = _setting(
        "0.0.0.0",
        "an address or a host name",
        "'0.0.0.0' answers on all of the machine's addresses, '127.0.0.1' only itself",
        min_length=1,
    )

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

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

    @field_validator("aged_share")
    @classmethod
    def _aging_lifts(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and value < info.data.get("batch_share", 0.0):
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

    @classmethod
    def load(
        cls,
        conf: Mapping[str, Any],
        overrides: Mapping[str, Any],
        environ: Mapping[str, str],
    ) -> FairSettings:
        """Merge the three sources, environment over keyword arguments over configuration.

        ``conf`` is the dict under ``app.conf.fair``. Raises `SettingsError` with every problem
        found; unknown names in the environment only warn, since it is shared with others.
        """
        if not isinstance(conf, Mapping):
            raise SettingsError(
                [
                    f"app.conf.fair: expected a dict of settings, got {conf!r}: "
                    f"for instance {{'batch_share': 0.2}}"
                ]
            )
        values: dict[str, Any] = {}
        labels: dict[str, str] = {}
        for source, label in (
            (conf, "app.conf.fair[{!r}]"),
            (overrides, "Fair({}=…)"),
            (_environment(environ), ENV_PREFIX + "{}"),
        ):
            for name, value in source.items():
                values[name] = value
                shown = name.upper() if label.startswith(ENV_PREFIX) else name
                labels[name] = label.format(shown)
        return cls._of(values, labels)

    def replaced(self, values: Mapping[str, Any]) -> FairSettings:
        """These settings with some that an operator has set meanwhile, checked with the others.

        Raises `SettingsError` as `load` does.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        labels = {**self._sources, **dict.fromkeys(values, LIVE)}
        named = {**labels, **{name: name for name in values}}
        return self._of({**given, **values}, named, labels)

    @classmethod
    def _of(
        cls,
        values: Mapping[str, Any],
        labels: Mapping[str, str],
        sources: Mapping[str, str] | None = None,
    ) -> FairSettings:
        try:
            settings = cls.model_validate(dict(values))
        except ValidationError as error:
            raise SettingsError(_sentences(error, values, labels)) from None
        settings._sources = dict(labels if sources is None else sources)
        return settings

    def source(self, name: str) -> str:
        """Where the value of a setting comes from: `DEFAULT`, `LIVE`, or where it was given."""
        return self._sources.get(name, DEFAULT)

    def __eq__(self, other: object) -> bool:
        """Whether the values are the same, wherever they come from."""
        if not isinstance(other, FairSettings):
            return NotImplemented
        return self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # some values are dicts

    @property
    def timeouts(self) -> Mapping[Kind, float | None]:
        """How long a task of each kind may wait for a slot, in seconds."""
        return {INTERACTIVE: self.interactive_timeout_seconds, BATCH: self.batch_timeout_seconds}

    @property
    def time_limits(self) -> Mapping[Kind, float | None]:
        """How long a task of each kind may run, in seconds, where it doesn't say so itself."""
        return {INTERACTIVE: self.interactive_time_limit, BATCH: self.batch_time_limit}

    @property
    def max_running(self) -> Mapping[Kind, int | None]:
        """How many tasks of each kind may run in all workers together."""
        return {INTERACTIVE: self.interactive_max_running, BATCH: self.batch_max_running}

    @property
    def admission(self) -> Mapping[Kind, tuple[int | None, float | None]]:
        """How many tasks of each kind may wait, and for how many seconds."""
        return {
            INTERACTIVE: (self.interactive_max_backlog, self.interactive_max_wait_seconds),
            BATCH: (self.batch_max_backlog, None),
        }

    @property
    def shards(self) -> Mapping[Kind, int]:
        """How many shards each kind has; one is none."""
        return {INTERACTIVE: self.interactive_shards, BATCH: self.batch_shards}

    def as_travels(self, tenant: str) -> str:
        """A tenant's name as messages have it; that for all, ``*``, is none."""
        key = self.tenant_hash_key
        return tenant if key is None or tenant == "*" else keyed_hash(tenant, key)

    def shown(self) -> dict[str, Any]:
        """Return what was set, as JSON values that anybody may see: without passwords and keys."""
        shown = self.model_dump(mode="json", exclude_defaults=True)
        for name in ("load_probe", "before_batch"):
            if getattr(self, name) is None:  # what has a serializer of its own is never excluded
                del shown[name]
        if self.tenant_hash_key is not None and self.tenant_weights:
            weights = self.tenant_weights.items()
            shown["tenant_weights"] = {self.as_travels(name): weight for name, weight in weights}
        if self.state_url is not None:
            shown["state_url"] = maybe_sanitize_url(self.state_url)
        return shown

    def policy(self, prefetch_multiplier: int) -> PolicySettings:
        """Return the part of the settings that the policy decides by."""
        shared = PolicySettings.__dataclass_fields__.keys() & type(self).model_fields.keys()
        return PolicySettings(
            prefetch_multiplier=prefetch_multiplier,
            **{name: getattr(self, name) for name in shared},
        )


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the variables of the environment that are ours."""
    found: dict[str, Any] = {}
    for variable, text in environ.items():
        # Empty is how compose files and shells write "not set".
        if not variable.startswith(ENV_PREFIX) or not text.strip():
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        if name in FairSettings.model_fields:
            found[name] = parsed(name, text.strip())
        else:
            hint = did_you_mean(name, FairSettings.model_fields)
            warnings.warn(
                f"{variable} is ignored: there is no setting {name!r}{hint}",
                FairWarning,
                stacklevel=2,
            )
    return found


def parsed(name: str, text: str) -> Any:
    """Turn the text of a variable, or of a command, into the value that it most likely means."""
    if name in SECRETS:  # it may look like a number
        return text
    annotation = FairSettings.model_fields[name].annotation
    if annotation is bool:
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        return words.get(text.lower(), text)
    if text.lower() in ("none", "null") and type(None) in get_args(annotation):
        return None
    for read in (json.loads, float):  # JSON knows no ".3"
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _sentences(
    error: ValidationError, values: Mapping[str, Any], labels: Mapping[str, str]
) -> list[str]:
    """One sentence a setting: pydantic reports each branch of a union and each item of a dict."""
    found = error.errors(include_url=False)
    names = dict.fromkeys(str(detail["loc"][0]) for detail in found)
    said = {str(detail["loc"][0]): str(detail.get("ctx", {}).get("error", "")) for detail in found}
    return [_sentence(name, values.get(name), labels.get(name, name), said[name]) for name in names]


def _sentence(name: str, value: Any, label: str, said: str) -> str:
    """One setting's; ``said`` is what its own check has found, if it has words for it."""
    if name not in FairSettings.model_fields:
        hint = did_you_mean(name, FairSettings.model_fields)
        return f"{label}: there is no setting {name!r}{hint or '; docs/settings.md lists them all'}"
    field = FairSettings.model_fields[name]
    cure = cast("dict[str, str]", field.json_schema_extra)["cure"]
    near = f": {said}" if said else _near_word(name, value)
    got = "something else" if name in SECRETS else f"{value!r}{near}"
    return f"{label}: expected {field.description}, got {got} ({cure})"


def _near_word(name: str, value: Any) -> str:
    """Point at a misspelt word, alone or inside a dict."""
    known = re.findall(r"'(\w+)'", FairSettings.model_fields[name].description or "")
    words = [value]
    if isinstance(value, Mapping):
        words = [word for item in value.items() for word in item]
    hints = (did_you_mean(w, known) for w in words if isinstance(w, str) and w not in known)
    return next((hint for hint in hints if hint), "")
