"""A request as the dispatcher sees it, without a worker around."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from celery.worker.request import Request


class Received(SimpleNamespace):
    """The part of Celery's request that dispatching looks at; each is itself alone."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    revoked = Request.revoked
    task = SimpleNamespace(name="shop.answer")
    delivery_info = None


def received(lane: Any, headers: Any) -> Received:
    """A request whose message came by ``lane``."""
    return Received(
        _message=SimpleNamespace(headers=headers, fair_lane=lane),
        _already_revoked=False,
        time_start=None,
        id="",
        expires=None,
    )
