"""A worker at rest: what must be zero, and what must not have grown since before the chaos."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from celery_fair.observe.recent import KEPT
from tests.apps.chaotic import POOLED
from tests.chaos.site import Site
from tests.nodes.worker import WorkerProcess

REST_SECONDS = 30.0
POLL_SECONDS = 0.5

Probe = Mapping[str, Any]

AGAIN = (
    "broker sockets",
    "Channel objects",
    "Connection objects",
    "Lane objects",
    "LaneConsumer objects",
)
"""What there may be as many again of, once and for each time that the broker went away.

Celery keeps a lost connection until the next is lost: its ``Consumer`` remembers the timers of
before, and with them the ETA tasks and the heartbeat. kombu keeps one for good if it could not give
back what was unacknowledged.
"""
EACH_RECONNECT = ("timer Heart._send",)
"""Celery's heartbeat under eventlet, where ``cancel`` ends only the call of the timer that is due:
each reconnect starts one more, and plain Celery has as many of them under the same seed.
"""
ALLOWED = {
    "results sockets": POOLED + 2,
    "Connection objects": 4 * POOLED,
    "Slot objects": KEPT,
    "channels": 2,
    "readers": 1,
    "threads": 1,
}
"""More than before that is none: what pools of connections may hold, opened when first used (one
more of each state, which two threads may ask at once); the tasks that a worker remembers; the
channel of a mode that it was in, and that of its orders; and the thread that renews what chunks of
jobs have claimed, begun with the first of them.
"""


def wait_rest(
    site: Site, worker: WorkerProcess, before: Probe | None = None, outages: int = 0
) -> Probe:
    """The last probe of a worker: at rest, and with nothing leaked, or after some patience."""
    end = time.monotonic() + REST_SECONDS
    probe: Probe = {}
    while time.monotonic() < end:
        probe = site.ask(worker, "chaos_probe") or probe
        if probe and not complaints(worker.hostname, before, probe, outages):
            break
        time.sleep(POLL_SECONDS)
    return probe


def complaints(name: str, before: Probe | None, probe: Probe, outages: int = 0) -> list[str]:
    """What a worker at rest still holds, and what it has more of than before."""
    if "busy" not in probe:
        return [f"{name} does not answer: {probe}"]
    found = [f"{name}: {count} {what}" for what, count in probe["busy"].items() if count]
    if before is None:
        return found
    if probe["slots"] != before["slots"]:
        found.append(f"{name}: {probe['slots']} slots instead of {before['slots']}")
    return found + [
        f"{name}: {count} {what}, {before['kept'].get(what, 0)} before"
        for what, count in probe["kept"].items()
        if count > _allowed(what, before["kept"], 1 + outages) + _heartbeats(what, probe)
    ]


def _heartbeats(what: str, probe: Probe) -> int:
    return probe.get("restarts", 0) if probe.get("is_green") and what in EACH_RECONNECT else 0


def _allowed(what: str, before: Mapping[str, int], times: int) -> int:
    count = before.get(what, 0)
    more = ALLOWED.get(what, 0)
    if what in AGAIN:
        more += times * count
    elif what in ("descriptors", "socket", "closed tcp sockets"):
        more += times * (before.get("broker sockets", 0) + POOLED)
    return count + more


def grown(name: str, before: Probe, probe: Probe) -> str:
    """All that a worker has more of than before, allowed or not."""
    more = [
        f"{what} {before['kept'].get(what, 0)} → {count}"
        for what, count in probe.get("kept", {}).items()
        if count > before["kept"].get(what, 0)
    ]
    return f"{name}, {probe.get('restarts')} reconnects: {', '.join(more) or 'nothing more'}"
