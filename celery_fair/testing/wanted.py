"""What the mark ``fair`` asks for, checked before anything is started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from celery_fair.errors import BadOption, did_you_mean
from celery_fair.settings import FairSettings
from celery_fair.testing import apart, embedded
from celery_fair.testing.brokers import TestBroker

POOLS: Final = (*embedded.POOLS, *apart.POOLS)
OWN: Final = ("concurrency", "pool", "app")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A worker, and celery-fair's settings for it."""

    concurrency: int = 4
    pool: str = "threads"
    app: str | None = None
    """Where a process of its own finds the app: ``"shop.celery:app"``."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, args: Sequence[Any], options: Mapping[str, Any]) -> Wanted:
        """Read the mark's arguments; raises `BadOption`."""
        if args:
            raise BadOption("@pytest.mark.fair(…)", "names with values: concurrency=4", args)
        settings = {name: value for name, value in options.items() if name not in OWN}
        for name in settings:
            if name not in FairSettings.model_fields:
                known = (*OWN, *FairSettings.model_fields)
                raise BadOption(
                    "@pytest.mark.fair(…)",
                    f"{', '.join(OWN)} or a setting{did_you_mean(name, known)}",
                    name,
                )
        wanted = cls(settings=settings, **{n: options[n] for n in OWN if n in options})
        wanted._check()
        return wanted

    def _check(self) -> None:
        if self.pool not in POOLS:
            raise BadOption("@pytest.mark.fair(pool=…)", " or ".join(map(repr, POOLS)), self.pool)
        if not isinstance(self.concurrency, int) or self.concurrency < 1:
            raise BadOption(
                "@pytest.mark.fair(concurrency=…)", "a number of slots", self.concurrency
            )
        if self.is_apart and self.app is None:
            raise BadOption(
                "@pytest.mark.fair(app=…)",
                f'where a process finds the app, as in app="shop.celery:app", for {self.pool}',
                None,
            )

        for name, value in self.settings.items():
            try:
                json.dumps(value)
            except TypeError:
                what = f"for {name} what JSON can say, and for a function its dotted name"
                raise BadOption("@pytest.mark.fair(…)", what, value) from None

    @property
    def is_apart(self) -> bool:
        """Whether its worker is a process of its own."""
        return self.pool in apart.POOLS

    def check_broker(self, broker: TestBroker) -> None:
        """Raise `BadOption` if the worker could not reach it."""
        if self.is_apart and not broker.reaches_processes:
            raise BadOption(
                f"@pytest.mark.fair(pool={self.pool!r})",
                'a broker that two processes reach: pip install "celery-fair[demo]", or set '
                "CELERY_FAIR_TEST_BROKER",
                broker.name,
            )
