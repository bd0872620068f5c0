"""The tasks of a flood for which the team has named none: they hold a slot, and do nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

NAME: Final = "celery_fair.testing.hold_slot"

_over: Final = threading.Event()
"""Set as a test ends, so that nobody waits for what only holds a slot."""


def register(app: Any) -> Any:
    """Add the task to an app, and return it."""

    @app.task(name=NAME, shared=False, ignore_result=True)  # type: ignore[untyped-decorator,unused-ignore]
    def hold_slot(seconds: float) -> None:
        """Stand for work that takes so long."""
        _over.wait(seconds)

    app.finalize()
    return app.tasks[NAME]


@contextmanager
def registered(app: Any) -> Iterator[Any]:
    """Have the task in an app as long as the block runs."""
    _over.clear()
    try:
        yield register(app)
    finally:
        let_go()
        app.tasks.pop(NAME, None)


def let_go() -> None:
    """End those that run in this process, at once."""
    _over.set()
