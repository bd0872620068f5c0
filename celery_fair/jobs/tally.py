"""What has become of a chunk's items since its last report."""

from __future__ import annotations

from typing import Any, Final

from celery_fair.jobs.items import encode
from celery_fair.jobs.store import Failed, Report

#: A result that is longer as JSON fails its item: results are for looking at, and not for files.
MOST_RESULT: Final = 65_536

#: Characters of results that are worth a report of their own: Redis does nothing else meanwhile.
MUCH_RESULT: Final = 1_000_000

#: Of an error's text, in characters; the store may keep less.
MOST_TEXT: Final = 1_000

NO_RESULT: Final = object()


class ResultTooLarge(Exception):  # noqa: N818 - named for what happened
    """The result of an item is too long to be kept: return an id or a path of it."""


class Tally:
    """Counts the items of one claim, for one report after the other."""

    def __init__(self, *, keeps_results: bool) -> None:
        self._keeps_results = keeps_results
        self._failed: list[Failed] = []
        self._results: dict[int, str] = {}
        self._length = 0
        self._count = 0
        self.reported = 0
        """Items that the store has been told of."""
        self.seconds = 0.0
        """How long those ran that it has not been told of."""
        self.total_seconds = 0.0
        self.failures = 0

    @property
    def ended(self) -> int:
        """Items that have ended."""
        return self.reported + self._count

    @property
    def has_much(self) -> bool:
        """Whether there is so much to tell that it had better be told soon."""
        return self._length >= MUCH_RESULT

    def add_seconds(self, seconds: float) -> None:
        """Add to how long the items ran."""
        self.seconds += seconds
        self.total_seconds += seconds

    def succeeded(self, index: int, value: Any) -> BaseException | None:
        """Count the next item; or return why its result can't be kept, and count nothing."""
        if self._keeps_results and value is not NO_RESULT:
            try:
                text = self._results[index] = _kept(index, value)
            except Exception as error:
                return error
            self._length += len(text)
        self._count += 1
        return None

    def failed(self, index: int, error: BaseException) -> None:
        """Count the next item as failed."""
        self._count += 1
        self.failures += 1
        self._failed.append(Failed(index, type(error).__name__, _text_of(error)))

    def report(self) -> Report:
        """Return what is to be told."""
        return Report(
            self.reported, self._count, tuple(self._failed), dict(self._results), self.seconds
        )

    def told(self) -> None:
        """Begin anew after a report."""
        self.reported += self._count
        self._count, self._length, self.seconds = 0, 0, 0.0
        self._failed, self._results = [], {}


def _kept(index: int, value: Any) -> str:
    text = encode(index, value)
    if len(text) > MOST_RESULT:
        raise ResultTooLarge(f"expected {MOST_RESULT} characters of JSON at most, got {len(text)}")
    return text


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:MOST_TEXT]
    except Exception:  # an error that can't even say what it is
        return ""
