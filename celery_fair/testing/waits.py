"""How long a task has waited, and the failure of one that is late."""

from __future__ import annotations

from typing import Final

from celery_fair.testing.told import Watch

MORE_SECONDS: Final = 3.0
"""A task that is late is waited for so much longer, to say how late it is."""


def wait_of(watch: Watch, id: str, seconds: float) -> float | None:
    """Seconds from its publish to its start; None for one that has not started by then."""

    def wait() -> float | None:
        story = watch.story(id)
        return None if story is None else story.wait_seconds

    watch.journal.wait(lambda: wait() is not None, seconds + MORE_SECONDS)
    return wait()


def late(watch: Watch, id: str, what: str, seconds: float, wait: float | None) -> AssertionError:
    """The failure: what was expected, what was measured, where the time went."""
    measured = (
        f"it had not started after {seconds + MORE_SECONDS:.3g} s"
        if wait is None
        else f"it started after {wait:.3g} s"
    )
    return AssertionError(
        f"expected {what} to start within {seconds:g} s, and {measured}\n"
        f"{watch.situation()}\n{watch.explanation(id)}"
    )


def nth(number: int, of: int) -> str:
    """Which of several it was."""
    if of == 1:
        return ""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number if number < 20 else number % 10, "th")
    return f" ({number}{ending} of {of})"
