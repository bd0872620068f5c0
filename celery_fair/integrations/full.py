"""The answer to a client whose request would have published more than may wait.

It says that the scheduler refused, so that nobody takes it for the 429 of a service behind. It says
nothing of the load, which is no stranger's business, and nothing that came with the request.
"""

from __future__ import annotations

import math
from typing import Any, Final

from celery_fair import QueueFull
from celery_fair.integrations.answering import JsonAnswer, json_answer

STATUSES: Final = (429, 503)
DEFAULT_STATUS: Final = 429

TRY_AGAIN_LATER: Final = 1013
"""The close code of a websocket (IANA's registry of RFC 6455) that means it."""


def refusal(error: QueueFull, status: int) -> JsonAnswer:
    """Return the response to a request that met ``error``."""
    seconds = math.ceil(error.retry_after_seconds)
    said: dict[str, Any] = {
        "error": "queue_full",
        "source": "scheduler",
        "kind": error.kind,
        "retry_after_seconds": seconds,
        "detail": f"Too much {error.kind} work waits already; try again in {seconds} s.",
    }
    return json_answer(status, said, Retry_After=str(seconds))
