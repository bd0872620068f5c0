"""Jobs in a store, brought as far as a test wants them, by the store's own steps."""

from __future__ import annotations

import json

from celery_fair.jobs.plan import Plan
from celery_fair.jobs.store import Claim, Failed, JobStore, Report


def keep(
    store: JobStore,
    id: str,
    items: int,
    *,
    task: str = "shop.summarize",
    close: bool = True,
    **plan,
) -> None:
    """Keep a job of so many items, none of which has run."""
    store.create(Plan(id=id, task=task, options={"kind": "batch"}, **plan))
    store.append(id, 0, [json.dumps(number) for number in range(items)])
    if close:
        store.close(id, items)


def work(store: JobStore, id: str, items: int, *, failing: int = 0) -> Claim:
    """Have a chunk run items, of which the first ones fail; it keeps what it claimed besides."""
    (ticket,) = store.grant(id, [f"{id}-ticket"])
    claim = store.claim(id, ticket, 30.0, token="t")
    assert isinstance(claim, Claim)
    failed = [Failed(index, "ValueError", "no page") for index in claim.indices[:failing]]
    store.report(claim, Report(after=0, count=items, failed=failed), size=1, ends=True)
    return claim
