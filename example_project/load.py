"""People who ask, now and then many at once, and piles of documents; prints the waits.

python -m example_project.load --questions 2 --burst 30 --pile 60
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles

import httpx

SERVICE_URL = os.environ.get("SERVICE_URL", "http://127.0.0.1:5000")
EVERY_SECONDS = 60.0
PEOPLE = 64
SUMMARIZE = "example_project.tasks.summarize_document"
SMALL = ("acme", "brick", "corner")
"""Tenants who send a tenth of a pile each; "big" sends whole ones."""


class Load:
    """Its visitors, and what they have seen."""

    def __init__(self, client: httpx.Client, options: argparse.Namespace) -> None:
        self.client = client
        self.options = options
        self.lock = threading.Lock()
        self.waits: list[float] = []
        self.seen: Counter[str] = Counter()

    def visit(self) -> None:
        """Ask, and read along to the end; the wait is the time until the task starts."""
        begin = time.monotonic()
        try:
            tenant = {"X-Fair-Tenant": random.choice((*SMALL, "big", "big", "big"))}
            reply = self.client.post("/ask", json={"question": "why"}, headers=tenant)
            if reply.status_code != httpx.codes.ACCEPTED:
                self.note("refused" if reply.status_code == 429 else "failed")
                return
            with self.client.stream("GET", f"/ask/{reply.json()['id']}/stream") as events:
                for line in events.iter_lines():
                    if line == "event: started":
                        self.note("answered", time.monotonic() - begin)
        except httpx.HTTPError:
            self.note("failed")

    def piles(self) -> None:
        """Send a pile of documents, and then some small ones of other tenants."""
        number = self.options.pile
        self.pile("big", number)
        for tenant in SMALL:
            self.pile(tenant, max(number // 10, 1))

    def pile(self, tenant: str, number: int) -> None:
        with contextlib.suppress(httpx.HTTPError):
            pile = {"task": SUMMARIZE, "items": list(range(number))}
            reply = self.client.post("/jobs", json=pile, headers={"X-Fair-Tenant": tenant})
            self.note("piles refused" if reply.status_code == 429 else "piles taken")

    def note(self, what: str, wait_seconds: float | None = None) -> None:
        with self.lock:
            self.seen[what] += 1
            if wait_seconds is not None:
                self.waits.append(wait_seconds)

    def report(self) -> str:
        """A line of what was seen since the last, and of batch's wait as the workers know it."""
        with self.lock:
            waits, self.waits = self.waits, []
            seen, self.seen = self.seen, Counter()
        line = ", ".join(f"{number} {what}" for what, number in sorted(seen.items())) or "nothing"
        if len(waits) > 1:
            cuts = quantiles(waits, n=20)
            line += f"; interactive wait p50 {cuts[9]:.2f} s, p95 {cuts[18]:.2f} s"
        with contextlib.suppress(httpx.HTTPError):
            batch = self.client.get("/status").json()["kinds"]["batch"]
            late = batch["wait_p95_seconds"] or 0
            line += f"; batch {batch['waiting']} waiting, wait p95 {late:.0f} s"
        return line

    def run(self) -> None:
        """Come and go for ever."""
        self.until_served()
        due = dict.fromkeys(("pile", "burst", "report"), time.monotonic() + 3)
        with ThreadPoolExecutor(PEOPLE) as people:
            while True:
                time.sleep(random.expovariate(self.options.questions))
                people.submit(self.visit)
                if self.due(due, "burst", EVERY_SECONDS / 1.5):
                    for _ in range(self.options.burst):
                        people.submit(self.visit)
                if self.due(due, "pile", EVERY_SECONDS):
                    people.submit(self.piles)
                if self.due(due, "report", 10):
                    people.submit(lambda: print(self.report(), flush=True))

    def until_served(self) -> None:
        """Wait for the service, which is started beside this."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                self.client.get("/status")
                return
            time.sleep(0.5)

    def due(self, due: dict[str, float], what: str, every_seconds: float) -> bool:
        late = time.monotonic() >= due[what]
        if late:
            due[what] = time.monotonic() + every_seconds
        return late


def main() -> None:
    """Read the rates and go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=float, default=2.0, help="a second, on average")
    parser.add_argument("--burst", type=int, default=12, help="questions at once, each 40 s")
    parser.add_argument("--pile", type=int, default=60, help="documents, each minute")
    limits = httpx.Limits(max_connections=PEOPLE)
    with httpx.Client(base_url=SERVICE_URL, limits=limits, timeout=60) as client:
        Load(client, parser.parse_args()).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
