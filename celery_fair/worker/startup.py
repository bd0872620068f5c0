"""What a worker says when it starts: how its slots are split, and what will not work."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from celery_fair.doctor import static_findings
from celery_fair.doctor.timeouts import UNKEPT_LIMIT, unkept_limits
from celery_fair.front import without_parts
from celery_fair.policy.kinds import KINDS

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

logger = logging.getLogger(__name__)


def announce(scheduler: Scheduler) -> None:
    """Log one line on the split of the slots, the gate and the active parts, then the warnings."""
    view, settings = scheduler.policy.view(monotonic()), scheduler.settings
    lanes = " ".join(f"{kind}={_listed(scheduler.backlog.queue_names(kind))}" for kind in KINDS)
    logger.info(
        "celery-fair: %d slots (reserve %s, batch is guaranteed %g of the time, %d slots at the "
        "most when owed); gate closes at %d interactive waiting or %g s; lanes %s; sensor %s; "
        "mode %s",
        view.slots,
        settings.reserve,
        settings.batch_share,
        view.owed_ceiling,
        settings.protect_backlog,
        settings.protect_wait_seconds,
        lanes,
        "on"
        if scheduler.measuring.is_possible
        else "off: this transport's queues can't be measured",
        settings.mode,
    )
    for kind in KINDS:
        if not scheduler.backlog.queue_names(kind):
            logger.warning(
                "celery-fair: this worker consumes no %s queue; unless another one consumes %s, "
                "%s tasks wait there unseen",
                kind,
                ", ".join(scheduler.fair.queues[kind]),
                kind,
            )
    found = static_findings(scheduler.c.app)
    if not scheduler.pool.has_time_limits and UNKEPT_LIMIT.id not in [f.id for f in found]:
        name = type(scheduler.c.pool).__module__.rpartition(".")[2]
        found += unkept_limits(scheduler.fair, name)
    for finding in found:
        if finding.severity != "info":
            logger.warning("celery-fair: %s", finding.line())


def _listed(queues: list[str]) -> str:
    return ",".join(without_parts(queues)) or "-"
