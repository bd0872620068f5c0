"""When so many items of a job fail that it should pause, rather than fail them all."""

from __future__ import annotations

from typing import Final

SAMPLE_ITEMS: Final = 100
"""A part is judged over so many items at least, else a job would pause at its first failure."""


def too_many(
    failed: int, finished: int, total: int | None, max_failures: int | float | None
) -> bool:
    """Whether ``failed`` of ``finished`` items are more than a job bears.

    A ``max_failures`` between 0 and 1 is a part of those finished; 1 or more, and 0, are a number.
    """
    if max_failures is None:
        return False
    if not 0 < max_failures < 1:
        return failed > max_failures
    sample = SAMPLE_ITEMS if total is None else min(total, SAMPLE_ITEMS)
    return failed > max_failures * max(finished, sample)
