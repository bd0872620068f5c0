"""What makes two publishes the same request, as one number that tells nothing of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kombu.serialization import dumps
from kombu.utils import json

if TYPE_CHECKING:
    from celery_fair.publish import Publish


def digest_of(name: str, publish: Publish) -> str | None:
    """Return the SHA-256 of app, tenant, request id, task and arguments, all of them together.

    So nobody reads another's result by a guessed request id, nor another tenant's; and two tasks
    of one web request, or one task with two sets of arguments, are two requests. None for arguments
    that can't be serialized, of which Celery tells the caller.
    """
    args, kwargs, header = publish.args, publish.kwargs, publish.header
    try:
        body = _arguments(_serializer(publish), list(args or ()), dict(kwargs or {}))
    except Exception:  # a serializer, and a user's own class under it, may raise anything
        return None
    who = json.dumps([publish.fair.app.main, header.tenant, header.request_id, name])
    return hashlib.sha256(who.encode() + b"\0" + body).hexdigest()


def _arguments(serializer: str, args: list[Any], kwargs: dict[str, Any]) -> bytes:
    if serializer == "json":
        try:
            return json.dumps([args, kwargs], sort_keys=True).encode()
        except TypeError:  # keys of several types, which can't be sorted
            pass
    _, _, payload = dumps([args, _sorted(kwargs)], serializer)
    return payload if isinstance(payload, bytes) else payload.encode()


def _sorted(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(kwargs.items()))


def _serializer(publish: Publish) -> str:
    of_task = getattr(publish.task, "serializer", None)
    return str(
        publish.options.get("serializer") or of_task or publish.fair.app.conf.task_serializer
    )
