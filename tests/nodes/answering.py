"""Commands that ask workers for a second, on machines where a worker may stand still for longer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

TRIES = 5

Done = TypeVar("Done")


def until_answered(
    run: Callable[[], Done], code: Callable[[Done], int] = lambda done: done.returncode
) -> Done:
    """What ``run()`` has come to, again and again while no worker had answered in time."""
    done = run()
    for _ in range(TRIES - 1):
        if code(done) != os.EX_UNAVAILABLE:
            break
        done = run()
    return done
