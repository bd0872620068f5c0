"""The worked example of docs/worked-example.md: ``python -m tests.unit.docs.clock`` prints it.

Four slots, played by the policy itself: nothing here decides anything.
"""

from __future__ import annotations

import heapq

from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy, PolicySettings

SLOTS, SHARE, RESERVE = 4, 0.25, 1
RUN = {INTERACTIVE: 1.0, BATCH: 3.0}
#: When so many interactive tasks come; twenty batch tasks are there from the start.
COMES = {1.0: 1, 4.0: 2, 8.0: 36}
TICK, END = 0.1, 20.0


def story() -> list[tuple[float, str, int, int, int, float, str]]:
    """Each moment at which something started or the gate moved."""
    policy = Policy(PolicySettings(batch_share=SHARE, reserve=RESERVE), slots=SLOTS, now=0.0)
    waiting = {INTERACTIVE: [], BATCH: [0.0] * 20}
    ends: list[tuple[float, str]] = []
    rows = []
    for step in range(round(END / TICK) + 1):
        now = round(step * TICK, 1)
        waiting[INTERACTIVE] += [now] * COMES.get(now, 0)
        while ends and ends[0][0] <= now + 1e-9:
            kind = heapq.heappop(ends)[1]
            policy.finish(kind, now, RUN[kind])
        changed = policy.observe(_load(waiting, now), now)
        debt, started = policy.view(now).debt_seconds, []
        while kind := policy.pick(*map(len, waiting.values()), now):
            owed = kind == BATCH and bool(waiting[INTERACTIVE])
            since = waiting[kind].pop(0)
            policy.start(kind, now, now - since)
            heapq.heappush(ends, (round(now + RUN[kind], 1), kind))
            started.append(f"{kind}, owed" if owed else kind)
        if started or changed:
            said = _said(started) + (f"; the gate is {changed.value}" if changed else "")
            left = len(waiting[INTERACTIVE])
            running = policy.running_batch, policy.running_interactive
            rows.append((now, said.removeprefix("; "), *running, left, debt, policy.mode.value))
    return rows


def _load(waiting: dict[str, list[float]], now: float) -> Load:
    held = waiting[INTERACTIVE]
    oldest = now - held[0] if held else 0.0
    return Load(
        len(held),
        len(waiting[BATCH]),
        interactive_oldest_wait_seconds=oldest,
        interactive_lane_empty=not held,
    )


def _said(started: list[str]) -> str:
    counts = {one: started.count(one) for one in started}
    return ", ".join(f"{count} × {one}" for one, count in counts.items())


def table() -> str:
    lines = [
        "| clock | starts | batch runs | interactive runs | interactive waits | debt | gate |",
        "|---|---|---|---|---|---|---|",
    ]
    for at, said, batch, interactive, left, debt, mode in story():
        clock = f"09:00:{at:04.1f}"
        lines.append(
            f"| {clock} | {said} | {batch} | {interactive} | {left} | {debt:.1f} | {mode} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
