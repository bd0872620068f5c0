"""People who ask, now and then many at once, and a pile of documents every minute."""

from __future__ import annotations

import contextlib
import os
import random
import time
from urllib.parse import urlencode
from urllib.request import urlopen

SERVICE_URL = os.environ.get("SERVICE_URL", "http://127.0.0.1:5000")
QUESTIONS_A_SECOND = 2.0
BURST = 30
BURST_SECONDS = 40.0
PILE = 100
PILE_SECONDS = 60.0


def post(path: str, **fields: object) -> bool:
    """Send a form; whether the service is up and took it."""
    try:
        urlopen(f"{SERVICE_URL}{path}", urlencode(fields).encode(), timeout=5).close()
    except OSError:  # which a URLError is
        time.sleep(0.5)
        return False
    return True


def main() -> None:
    """Come and go for ever."""
    burst_at = pile_at = time.monotonic()
    while True:
        now = time.monotonic()
        if now >= pile_at and post("/summaries", count=PILE):
            pile_at = now + PILE_SECONDS
        questions = 1
        if now >= burst_at:
            burst_at, questions = now + BURST_SECONDS, BURST
        for _ in range(questions):
            post("/questions", question="why")
        time.sleep(random.expovariate(QUESTIONS_A_SECOND))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
