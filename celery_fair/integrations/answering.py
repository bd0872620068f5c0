"""HTTP answers of JSON, before any framework makes its own of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class JsonAnswer(NamedTuple):
    """An HTTP response: status, headers and a body of JSON."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def json_answer(status: int, said: Mapping[str, Any], **more: str) -> JsonAnswer:
    """Return a response that nobody keeps; an underscore in a header's name is a hyphen."""
    body = json.dumps(said).encode()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return JsonAnswer(status, headers, body)
