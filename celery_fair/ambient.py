"""What the code around a publish says: a kind, and whom it is done for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

from pydantic import SecretStr

from celery_fair.headers import MAX_TEXT
from celery_fair.options import known_kind
from celery_fair.policy.kinds import Kind
from celery_fair.settings import keyed_hash


@dataclass(frozen=True, slots=True)
class Ambient:
    """What the code around a publish says: a kind, and whom it is done for."""

    kind: Kind | None
    #: True for ``with fair.kind(...)``: it beats declarations, and its children's too.
    covers_children: bool
    tenant: str | None = None
    request_id: str | None = None
    #: The tenant is already as it is to travel.
    is_hidden: bool = False
    #: What is published goes before all that waits.
    to_front: bool = False
    #: It belongs to work that was let in, whatever waits.
    let_in: bool = False


NOTHING: Final = Ambient(None, covers_children=False)


ambient: Final[ContextVar[Ambient | None]] = ContextVar("celery_fair_ambient", default=None)


@contextmanager
def saying(value: Ambient | None) -> Iterator[None]:
    token = ambient.set(value)
    try:
        yield
    finally:
        ambient.reset(token)


@contextmanager
def everything_is(kind: Kind) -> Iterator[None]:
    """Publish everything inside as ``kind``, whatever the tasks declare, and their children too."""
    around = ambient.get() or NOTHING
    with saying(replace(around, kind=known_kind(kind), covers_children=True)):
        yield


@contextmanager
def inherit(
    kind: Kind | None = None, *, tenant: object = None, request_id: object = None
) -> Iterator[None]:
    """Publish what is inside as a running task of that kind, tenant and request would.

    This is the scope of a web request. A task's own declaration beats the kind, and what a call
    says beats all three; what isn't said here stays as the block around this one has it.

    Like every context variable it holds in coroutines and in ``asyncio.to_thread``, but not in
    threads started by hand, unless they run in ``contextvars.copy_context()``.
    """
    around = ambient.get() or NOTHING
    value = Ambient(
        around.kind if kind is None else known_kind(kind),
        covers_children=around.covers_children if kind is None else False,
        tenant=bounded(tenant) or around.tenant,
        request_id=bounded(request_id) or around.request_id,
    )
    with saying(value):
        yield


def as_published(
    *,
    tenant: str | None,
    request_id: str | None,
    to_front: bool = False,
    let_in: bool = False,
) -> AbstractContextManager[None]:
    """Publish what is inside for someone whose work was published before, and nobody else."""
    return saying(
        Ambient(
            None,
            covers_children=False,
            tenant=tenant,
            request_id=request_id,
            is_hidden=True,
            to_front=to_front,
            let_in=let_in,
        )
    )


def inherit_kind(kind: Kind) -> AbstractContextManager[None]:
    """Publish what is inside as a running task of ``kind`` would: a task's own declaration wins.

    `Fair.inherit` is the same, and takes a tenant and a request id too.
    """
    return inherit(known_kind(kind))


def bounded(text: object) -> str | None:
    """Return an identifier as text of a length that every worker can carry."""
    return None if text is None else str(text)[:MAX_TEXT]


def hidden(text: str | None, key: SecretStr | None) -> str | None:
    """Return an identifier as it is to travel: with a key half of its HMAC-SHA256, in hex."""
    if text is None or key is None:
        return text
    return keyed_hash(text, key)
