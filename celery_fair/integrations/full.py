"""The answer to a client whose request would have published more than may wait.

It says that the scheduler refused, so that nobody takes it for the 429 of a service behind. It says
nothing of the load, which is no stranger's business, and nothing that came with the request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from celery_fair import QueueFull

STATUSES: Final = (429, 503)
DEFAULT_STATUS: Final = 429

TRY_AGAIN_LATER: Final = 1013
"""The close code of a websocket (IANA's registry of RFC 6455) that means it."""


class Refusal(NamedTuple):
    """An HTTP response: status, headers and a body of JSON."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def refusal(error: QueueFull, status: int) -> Refusal:
    """Return the response to a request that met ``error``."""
    seconds = math.ceil(error.retry_after_seconds)
    said: dict[str, Any] = {
        "error": "queue_full",
        "source": "scheduler",
        "kind": error.kind,
        "retry_after_seconds": seconds,
        "detail": f"Too much {error.kind} work waits already; try again in {seconds} s.",
    }
    body = json.dumps(said).encode()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Retry-After": str(seconds),
        "Cache-Control": "no-store",
    }
    return Refusal(status, headers, body)
