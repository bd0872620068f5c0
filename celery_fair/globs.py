"""What settings say of tasks by their names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Generic, TypeVar

T = TypeVar("T")


#: Celery's own tasks; they serve others, so they never choose batch by themselves.
BUILT_IN: Final = "celery."

#: Names come from elsewhere, too; what is kept about them must not fill the memory.
MAX_NAMES: Final = 10_000


class Globs(Generic[T]):
    """Values by names and patterns of names: an exact name, else the first pattern that matches."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = values
        self._known: dict[str, T | None] = {}

    def find(self, name: str) -> T | None:
        """Return what is said of a task's name, or None; the answer is kept, as publishing asks."""
        if name not in self._known:
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            self._known[name] = self._match(name)
        return self._known[name]

    def _match(self, name: str) -> T | None:
        if name in self._values:
            return self._values[name]
        for glob, value in self._values.items():
            # "*" means the team's tasks: it must not send chord_unlock behind their bulk.
            ours = not name.startswith(BUILT_IN) or glob.startswith(BUILT_IN)
            if ours and fnmatchcase(name, glob):
                return value
        return None
