"""`FairSettings`: all the settings of a team, from where they are given to who may see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kombu.utils.url import maybe_sanitize_url
from pydantic import PrivateAttr, ValidationError

from celery_fair.errors import SettingsError
from celery_fair.policy import PolicySettings
from celery_fair.settings.fields import setting
from celery_fair.settings.kinds import KindSettings
from celery_fair.settings.reading import ENV_PREFIX, environment, meant
from celery_fair.settings.scheduling import SchedulingSettings
from celery_fair.settings.sentences import sentences
from celery_fair.settings.sharing import SharingSettings
from celery_fair.settings.tasks import TaskSettings

LEAST_SAMPLE: Final = 0.0001
"""As traces have it: each line of a smaller one would stand for too many tasks."""

DEFAULT: Final = "default"
LIVE: Final = "live"
"""Sources of a value, beside the names of those that a team has given: see `FairSettings.source`.
"""


class FairSettings(SharingSettings, TaskSettings, SchedulingSettings, KindSettings):
    """Everything that can be set, with its default; ``docs/settings.md`` has the reasons.

    Its parts are named from the last to the first, since that is the order in which pydantic
    takes their fields: a check sees those before its own.
    """

    log_tasks: float = setting(
        0.0,
        "a part of all tasks, from 0 to 1",
        "1 writes a line of JSON for each task that ends, 0.01 for one in a hundred, 0 for none",
        ge=0.0,
        le=1.0,
    )

    record: str | None = setting(
        None,
        "'redis', the absolute path of a folder, or none",
        "each worker records when its tasks came, waited and ran; none records while "
        "`celery fair record` asks",
        pattern=r"^(redis|/.+|[A-Za-z]:[\\/].*)$",
    )
    record_sample: float = setting(
        1.0,
        f"a part of all tasks, from {LEAST_SAMPLE} to 1",
        "0.1 records one task in ten, with its retries and parts",
        ge=LEAST_SAMPLE,
        le=1.0,
    )
    record_megabytes: float = setting(
        64.0,
        "megabytes from 1",
        "what is older goes; of the stream in Redis, or of each worker's files",
        ge=1.0,
        le=1e6,
    )

    metrics_port: int | None = setting(
        None,
        "a port from 1 to 65535, or none",
        "none serves no metrics; `celery fair exporter` serves those of all workers",
        ge=1,
        le=65535,
    )
    metrics_host: str = setting(
        "0.0.0.0",
        "an address or a host name",
        "'0.0.0.0' answers on all of the machine's addresses, '127.0.0.1' only itself",
        min_length=1,
    )

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

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
            (environment(environ, cls.model_fields), ENV_PREFIX + "{}"),
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
            raise SettingsError(sentences(error, values, labels, cls.model_fields)) from None
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


def parsed(name: str, text: str) -> Any:
    """Return the value of a setting that an operator most likely means by a text."""
    return meant(name, text, FairSettings.model_fields)
