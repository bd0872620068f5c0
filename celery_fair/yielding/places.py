"""Where the loops of a task are: which of them have ended, and how far the present ones are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Place:
    """A loop that runs: ``at`` is the cursor of the last item that is done, None before one is."""

    __slots__ = ("at", "depth", "inner", "state")

    def __init__(self, at: Any, inner: Any, depth: int, state: Callable[[], Any] | None) -> None:
        self.at = at
        self.inner = inner
        self.depth = depth
        self.state = state


class Level:
    """The loops in the body of one other loop, or in the task itself, one after the other."""

    __slots__ = ("active", "begun", "saved")

    def __init__(self, saved: Any) -> None:
        self.begun = 0
        self.active: Place | None = None
        self.saved = _known(saved)


class Places:
    """All loops of a run, as deep as they are nested.

    Saved as ``[which loop of its level, its cursor, the same of the level in its body]``: those
    before it have ended. A loop is known by how many began before it in the body of the same item,
    so that a task which goes on must come by the same loops again, in the same order.
    """

    def __init__(self, saved: Any = None) -> None:
        self._levels = [Level(saved)]

    def begin(self, state: Callable[[], Any] | None) -> Place | None:
        """Return the place of a loop that begins; None for one that an earlier run has ended."""
        level = self._levels[-1]
        number = level.begun
        level.begun += 1
        at = inner = None
        if level.saved is not None:
            reached, *rest = level.saved
            if number < reached:
                return None
            level.saved = None
            if number == reached:
                at, inner = rest
        level.active = Place(at, inner, len(self._levels), state)
        return level.active

    def item_begins(self, place: Place) -> None:
        """The body of a loop is entered; the first time, it goes on where it was."""
        self._levels.append(Level(place.inner))
        place.inner = None

    def item_ends(self, place: Place) -> None:
        del self._levels[place.depth :]

    def end(self, place: Place) -> None:
        """A loop has ended, with its items or before them."""
        del self._levels[place.depth :]
        self._levels[-1].active = None

    def saved(self) -> list[Any] | None:
        """Return where all loops are, None if there were none."""
        found: list[Any] | None = None
        for level in reversed(self._levels):
            if level.saved is not None:  # it goes on, and has not come to its loop yet
                found = level.saved
            elif level.active is not None:
                place = level.active
                found = [level.begun - 1, place.at, place.inner if found is None else found]
            elif level.begun:
                found = [level.begun, None, None]
        return found

    def state(self) -> Callable[[], Any] | None:
        """Return what gives the state to save with the innermost loop that has one."""
        for level in reversed(self._levels):
            if level.active is not None and level.active.state is not None:
                return level.active.state
        return None


def _known(saved: Any) -> list[Any] | None:
    """What is no place of a loop is none: a message may come from anybody."""
    if type(saved) is list and len(saved) == 3 and type(saved[0]) is int:
        return saved
    return None
