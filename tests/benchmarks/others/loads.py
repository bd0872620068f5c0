"""The loads: arrivals and run times from a seed, so that every contestant gets the same."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixed_load.load import Load

NAMES = ("mixed", "bursts", "flood")
DIGESTED_BATCH_TASKS = 500


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Run times of which some are many times as long as most, cut off at ``most`` seconds.

    In the place of the ruler's ``Span``. With one size a kind, a clever way to admit tasks does as
    a semaphore does.
    """

    median: float
    sigma: float
    most: float = math.inf

    def draw(self, source: random.Random) -> float:
        return min(source.lognormvariate(math.log(self.median), self.sigma), self.most)

    def __str__(self) -> str:
        return f"lognormal, median {self.median:g} s, sigma {self.sigma:g}, at most {self.most:g} s"


BATCH = LogNormal(1.2, 1.0, 15.0)
SHORT = LogNormal(0.05, 0.5, 0.5)


def load(name: str, seed: int) -> Load:
    """One of ``NAMES``. The ruler is needed for this."""
    from mixed_load.load import Arrivals, Load

    mixed = Load(
        name="mixed",
        arrivals=Arrivals(rate=4),
        interactive_service=SHORT,
        batch_service=BATCH,
        batch_backlog=200,
        warmup=8.0,
        duration=30.0,
        grace=5.0,
        seed=seed,
    )
    if name == "bursts":
        return replace(mixed, name=name, arrivals=Arrivals(rate=0.2, size=30, poisson=False))
    if name == "flood":
        # One and a half times what eight slots can do.
        return replace(
            mixed,
            name=name,
            arrivals=Arrivals(rate=60),
            interactive_service=LogNormal(0.18, 0.4, 1.0),
            warmup=4.0,
            duration=12.0,
            grace=12.0,
        )
    assert name == "mixed", name
    return mixed


def digest(interactive: Sequence[tuple[float, float]], batch: Sequence[float]) -> str:
    """The same for two runs exactly if their arrivals and run times are."""
    text = repr((list(interactive), list(batch)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_of(load: Load) -> str:
    return digest(load.interactive(), list(islice(load.batch(), DIGESTED_BATCH_TASKS)))
