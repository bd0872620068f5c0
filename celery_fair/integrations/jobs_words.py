"""What a request says of a job to be submitted: read whole, and refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from celery_fair.integrations.answering import JsonAnswer, json_answer

OPTIONS: Final = ("chunk_items", "chunk_seconds", "max_failures", "results")
"""What a client may say beside task, items and id; all else is the application's to decide."""

MOST_SAID: Final = 300
"""An error quotes a client's own words, and no more of them than this."""


class Wrong(ValueError):  # noqa: N818 - named for what the request is
    """A request that can't be used, with its answer."""

    def __init__(self, status: int, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.answer = failed(status, detail, **more)


_NAMES: Final = {
    400: "bad_request", 404: "not_found", 405: "method_not_allowed", 409: "conflict",
    413: "too_large", 415: "not_json", 503: "unavailable",
}  # fmt: skip


def failed(status: int, detail: str, *, id: str | None = None, **headers: str) -> JsonAnswer:
    """Return the answer to a request that came to nothing; ``id`` is what to repeat it with."""
    said = {"error": _NAMES[status], "source": "jobs", "detail": detail[:MOST_SAID]}
    return json_answer(status, said if id is None else {**said, "id": id}, **headers)


class Submission(NamedTuple):
    """A job as it was asked for."""

    task: str
    items: list[Any]
    id: str | None
    options: dict[str, Any]


def submission(said: Any, key: str | None, tasks: Collection[str], max_items: int) -> Submission:
    """Read the body of a ``POST /jobs``; ``key`` is its Idempotency-Key. Raises `Wrong`."""
    if not isinstance(said, dict):
        raise Wrong(400, "expected a JSON object with task and items")
    unknown = sorted(said.keys() - {"task", "items", "id", *OPTIONS})
    if unknown:
        names = ", ".join(("task", "items", "id", *OPTIONS))
        raise Wrong(400, f"expected {names}, got {unknown[0]!r}")
    task, items = said.get("task"), said.get("items")
    if not isinstance(task, str) or task not in tasks:
        raise Wrong(400, f"task: expected {' or '.join(map(repr, sorted(tasks)))}")
    if not isinstance(items, list):
        raise Wrong(400, "items: expected a list")
    if len(items) > max_items:
        raise Wrong(413, f"items: expected {max_items} at most, got {len(items)}")
    options = {name: said[name] for name in OPTIONS if name in said}
    return Submission(task, items, _id(said.get("id"), key), options)


def _id(said: Any, key: str | None) -> str | None:
    """The id of the body, or of the header: a request that is sent again means the same job."""
    if key is not None:
        key = key.strip(' \t"')  # a string of a structured header is quoted, and few do it
        if said is not None and said != key:
            raise Wrong(400, "id: expected the same as in Idempotency-Key, or one of the two")
        said = key
    if said is not None and not isinstance(said, str):
        raise Wrong(400, "id: expected a string")
    return said


def read_json(content_type: str | None, body: bytes) -> Any:
    """Read a body that says that it is JSON, which no form on another site can. Raises `Wrong`."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise Wrong(415, "Content-Type: expected application/json")
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Wrong(400, "expected JSON") from error


def _refuse(constant: str) -> Any:
    raise ValueError(constant)  # NaN and the infinities are Python's, and not JSON


def page(said: str | None, name: str, default: int, most: int) -> int:
    """Read a number of the query. Raises `Wrong`."""
    if said is None:
        return default
    if not said.isascii() or not said.isdigit() or len(said) > 9 or int(said) > most:
        raise Wrong(400, f"{name}: expected a number up to {most}")
    return int(said)
