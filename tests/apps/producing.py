"""A script that submits a job of numbered items, slowly, until something kills it.

``python -m tests.apps.producing ID COUNT SECONDS``: so many items, that many seconds apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from celery_fair import Fair
from tests.apps import jobbing


def items(count: int, seconds: float) -> Iterator[dict]:
    """The same items each time."""
    for n in range(count):
        time.sleep(seconds)
        yield {"n": n}


def main(id: str, count: str, seconds: str) -> None:
    """Submit, and end when all are there: no thread is waited for here."""
    fair = Fair.of(jobbing.app)
    fair.submit_job(jobbing.each, items(int(count), float(seconds)), id=id, ahead=50)


if __name__ == "__main__":
    main(*sys.argv[1:])
