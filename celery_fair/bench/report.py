"""What a run of the bench has found, in plain JSON values."""

from __future__ import annotations

import time
from typing import Any

import celery_fair
from celery_fair.bench.comparing import FORMAT
from celery_fair.bench.recording import Look, Sampled, buckets, counted, left, use_of_slots
from celery_fair.bench.run import Bench
from celery_fair.bench.waits import of_buckets, of_durations
from celery_fair.policy.kinds import KINDS, Kind


def of_probes(bench: Bench) -> dict[str, Any]:
    """Of probes that were sent, and of the slots meanwhile."""
    kinds = {kind: _probes(bench, kind) for kind in KINDS}
    whole = _whole("probes", bench.before, bench.after, bench.sampled)
    if bench.after is bench.before:  # the broker was lost before a second look
        whole["seconds"] = round(bench.stopped_at - bench.before.at, 3)
    why = None if bench.error is None else str(bench.error)
    return {**whole, "ended": bench.ended, "error": why, "kinds": kinds}


def of_record(before: Look, after: Look) -> dict[str, Any]:
    """Of the tasks that people have sent, as the workers have counted them."""
    kinds = {
        kind: {
            "wait_seconds": of_buckets(buckets(before, after, kind)),
            "started": round(counted(before, after, kind, "dispatched")),
        }
        for kind in KINDS
    }
    return {**_whole("record", before, after, Sampled()), "ended": "complete", "kinds": kinds}


def _whole(source: str, before: Look, after: Look, sampled: Sampled) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "source": source,
        "version": celery_fair.__version__,
        "made_at": round(time.time(), 3),
        "seconds": round(after.at - before.at, 3),
        "workers": {"with_celery_fair": sorted(after.reports), "plain": sorted(after.stats)},
        "gone": left(before, after),
        **use_of_slots(before, after, sampled),
    }


def _probes(bench: Bench, kind: Kind) -> dict[str, Any]:
    publisher = bench.publisher
    if publisher is None:
        return {"queue": None, "sent": 0, "ran": 0, "refused": 0, "wait_seconds": of_durations(())}
    sent, arrived = publisher.sent[kind], bench.replies.arrived
    waits = [
        max(arrived[probe][0] - at - arrived[probe][1], 0.0)
        for probe, at in sent.at.items()
        if probe in arrived
    ]
    ages = [bench.stopped_at - at for probe, at in sent.at.items() if probe not in arrived]
    return {
        "queue": publisher.queue(kind),
        "sent": len(sent.at),
        "ran": len(waits),
        "refused": sent.refused,
        "wait_seconds": of_durations(waits, ages),
    }
