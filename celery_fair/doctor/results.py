"""How many results are kept, by what workers finish and how long a result lives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.options import WITHOUT_KEPT_RESULTS
from celery_fair.doctor.replies import Replies

MANY_RESULTS: Final = rule(
    "F129",
    "info",
    "a great many results are kept",
    why="Each is kept for result_expires, read or not; in a Redis that is the broker too they take "
    "the memory that messages need.",
    cure="Shorten result_expires, or set ignore_result for tasks whose result nobody reads.",
)

MANY: Final = 1_000_000


def result_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    conf = fair.app.conf
    backend = str(conf.result_backend or "disabled").partition("://")[0]
    expires = conf.result_expires
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if not seconds or conf.task_ignore_result or backend in WITHOUT_KEPT_RESULTS:
        return
    rate = sum(_rate(report) for report in replies.reports.values())
    if rate * seconds >= MANY:
        yield MANY_RESULTS.finding(
            f"{rate:.0f} tasks a second, each result kept for {seconds / 3600:.1f} h: about "
            f"{rate * seconds / 1e6:.1f} million at a time, less those of tasks with ignore_result"
        )


def _rate(report: Mapping[str, Any]) -> float:
    """Tasks finished a second since the worker has started."""
    finished = sum(sum(part["finished"].values()) for part in report["kinds"].values())
    return float(finished / max(time.time() - report["started_at"], 60.0))
