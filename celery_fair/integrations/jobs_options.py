"""Checks what an application says of the jobs that it offers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

ACTIONS: Final = ("pause", "resume", "cancel", "retry")

#: Keywords of `Fair.submit_job` that follow from the request.
OF_REQUEST: Final = ("task", "items", "id", "total", "ahead")


def wrong_tasks(tasks: object) -> Iterator[str]:
    """Tasks or their names, one at least: no default could be right."""
    named = isinstance(tasks, (list, tuple, set, frozenset)) and bool(tasks)
    if not named or not all(isinstance(getattr(t, "name", t), str) for t in tasks):  # type: ignore[attr-defined]
        yield f"tasks: expected a list of job tasks or of their names, got {tasks!r}"


def wrong_actions(actions: object) -> Iterator[str]:
    """Some of `ACTIONS`, or none."""
    known = isinstance(actions, (list, tuple, set, frozenset))
    if not known or not all(action in ACTIONS for action in actions):  # type: ignore[attr-defined]
        yield f"actions: expected a list of {', '.join(map(repr, ACTIONS))}, got {actions!r}"


def wrong_numbers(numbers: Mapping[str, object]) -> Iterator[str]:
    """Bounds, by the names of their options."""
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            yield f"{name}: expected a number of 1 or more, got {number!r}"


def wrong_options(options: object) -> Iterator[str]:
    """More keywords of `Fair.submit_job`, which looks at their values itself."""
    if not isinstance(options, Mapping):
        yield f"options: expected a dict of keywords of submit_job, got {options!r}"
        return
    for name in options:
        if name in OF_REQUEST or not isinstance(name, str):
            yield f"options: expected none of {', '.join(OF_REQUEST)}, got {name!r}"
