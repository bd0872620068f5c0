"""The jobs on the page, as plain JSON: asked of their Redis while somebody looks, off the loop."""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Any, Final

from celery_fair import Fair, Progress, SettingsError, StateAway

logger = logging.getLogger(__name__)

SHOWN: Final = 50
"""The newest; more of them would be a list, and `fair job list` has it."""
EVERY_SECONDS: Final = 2.0
TEXT: Final = 200


class Jobs:
    """The last answer, and a thread that asks for the next: Flower's loop waits for no Redis.

    Without a Fair in Flower's app, without a Redis or without a job there is nothing to show.
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._asking: threading.Thread | None = None
        self._shown: list[dict[str, Any]] = []
        self._away = False

    def picture(self, app: Any, now: float) -> dict[str, Any]:
        """What was answered last; if that is old, somebody asks for the next look."""
        busy = self._asking is not None and self._asking.is_alive()
        if not busy and now - self._asked_at >= EVERY_SECONDS:
            self._asked_at = now
            self._asking = threading.Thread(
                target=self._ask, args=(app,), name="celery-fair-jobs", daemon=True
            )
            self._asking.start()
        return {"jobs": self._shown, "away": self._away}

    def _ask(self, app: Any) -> None:
        fair = Fair.of(app)
        if fair is None:
            return
        try:
            self._shown = [_row(job) for job in fair.list_jobs(0, SHOWN)]
            self._away = False
        except SettingsError:  # no Redis for it: there are no jobs
            self._asked_at = float("inf")
        except StateAway:
            self._away = True
        except Exception as error:  # the page shows the workers anyway
            self._away = True
            logger.debug("celery-fair: jobs can't be read", exc_info=True)
            logger.warning("celery-fair: jobs can't be read: %s", type(error).__name__)
            self._asked_at = monotonic() + 60


def _row(job: Progress) -> dict[str, Any]:
    return {
        "id": job.id[:TEXT],
        "task": job.task[:TEXT],
        "kind": job.kind,
        "state": job.state,
        "reason": (job.reason or "")[:TEXT],
        "submitted": job.submitted,
        "total": job.total,
        "done": job.done,
        "failed": job.failed,
        "running": job.running,
        "rate": job.rate,
        "eta": job.eta,
        "silent": job.is_producer_silent,
        "age_seconds": max(job.asked_at - job.last_at, 0.0),
    }
