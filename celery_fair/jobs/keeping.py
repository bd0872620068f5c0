"""What every store of jobs keeps to: how long, how much, and in which words."""

from __future__ import annotations

from typing import Final

OPEN_SECONDS: Final = 7 * 86_400.0
"""A job that has not ended is kept for so much longer: it may wait in a deep backlog, or paused."""

TICKET_SECONDS: Final = 60.0
"""After so long a waiting ticket is published again, as brokers may lose one; then after twice as
long.
"""

CALL_SECONDS: Final = 30.0
"""A callback that nobody has said to be published is due again after so long."""

LOOK_SECONDS: Final = 2.0
"""However many workers ask what is overdue, a job is looked at no more often."""

LOOKS: Final = 20
"""Jobs that are looked at by one such question."""

ANSWER_SECONDS: Final = 60.0
"""The last report of a claim may be repeated for so long."""

KEPT_FAILURES: Final = 10_000
"""A job pauses at so many failed items, rather than keep no more of them; resumed, at as many more.
"""

LOSSES: Final = 3
"""An item that is alone fails when its worker was lost for so many times."""

CLAIM_CHARACTERS: Final = 4_000_000
"""A chunk has no more items than have so much JSON: Redis sends a claim as one answer."""

MAX_TEXT: Final = 500
"""Characters that are kept of a failure's message."""

MAX_NAME: Final = 200
"""Characters that are kept of a failure's class."""

TOO_MANY: Final = "%d of the %d items finished since it was started or resumed have failed"
FULL: Final = "%d failed items are kept, and no more can be: retry those, or resume to keep more"

ITEMS_GONE: Final = "items of it are gone from Redis, which may have evicted them: submit them anew"
WORKER_LOST: Final = "WorkerLost"
WORKER_LOST_MESSAGE: Final = (
    "each worker that ran it was not heard of again: killed, perhaps for the memory that it took, "
    "or its host was gone"
)


def kept(text: str, most: int) -> str:
    """What is kept of a text: it is cut, and what UTF-8 has no place for is written out."""
    return sendable(text[:most])[:most]


def sendable(text: str) -> str:
    """A text that Redis can be sent: half a surrogate pair, as a shell hands over, is written out.

    It would fail in the client, which looks like a Redis that is away.
    """
    return text.encode("utf-8", "backslashreplace").decode()
