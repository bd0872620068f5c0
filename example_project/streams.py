"""What a browser sees of a task while it runs, by way of Redis.

A Redis stream an answer, and not pub/sub: a browser that connects late, or again, reads from where
it was. It holds the answer's text, so it goes by itself after ten minutes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from redis import Redis

KEPT_SECONDS = 600
BLOCK_SECONDS = 15
store = Redis.from_url(
    os.environ.get("STORE_URL", "redis://localhost:6379/2"),
    decode_responses=True,
    socket_timeout=2 * BLOCK_SECONDS,  # or redis-py gives up before Redis answers
)
LAST = ("done", "failed")
POSITION = re.compile(r"\d+-\d+")


def say(task_id: str, event: str, **data: Any) -> None:
    """Add an event to a task's stream."""
    with store.pipeline() as pipe:
        pipe.xadd(f"stream:{task_id}", {"event": event, "data": json.dumps(data)})
        pipe.expire(f"stream:{task_id}", KEPT_SECONDS)
        pipe.execute()


def events(task_id: str, after: str | None = None) -> Iterator[str]:
    """Yield a task's events as server-sent events, until its last or for two quiet minutes."""
    position = after if after and POSITION.fullmatch(after) else "0"
    for _ in range(8):
        while found := store.xread({f"stream:{task_id}": position}, block=BLOCK_SECONDS * 1000):
            [(_, entries)] = found.items() if isinstance(found, dict) else found
            for position, said in entries:
                yield f"id: {position}\nevent: {said['event']}\ndata: {said['data']}\n\n"
                if said["event"] in LAST:
                    return
        yield ": still here\n\n"  # or a proxy takes the connection for dead
