"""Whose work a publish is: a tenant and a request id, given to what a block publishes."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair, UnknownKind, inherit_kind
from celery_fair.headers import MAX_TEXT


def whose(sent: Any) -> list[tuple[str | None, str | None, str | None]]:
    """Return (kind, tenant, request id) of each message."""
    return [(m.kind, m.header.tenant, m.header.request_id) for m in sent()]


def test_a_block_gives_its_tenant_and_request_id(app: Celery, fair: Fair, sent: Any) -> None:
    with fair.inherit("batch", tenant="acme", request_id="r1"):
        app.send_task("x")
    assert whose(sent) == [("batch", "acme", "r1")]
    app.send_task("after")
    assert whose(sent) == [("interactive", None, None)]


def test_a_call_says_it_better(app: Celery, fair: Fair, sent: Any) -> None:
    with fair.inherit(tenant="acme", request_id="r1"):
        app.send_task("x", tenant="other", request_id="r2")
    assert whose(sent) == [("interactive", "other", "r2")]


def test_a_block_inside_changes_only_what_it_says(app: Celery, fair: Fair, sent: Any) -> None:
    with fair.inherit("batch", tenant="acme", request_id="r1"):
        with fair.inherit(tenant="other"):
            app.send_task("x")
        with fair.kind("interactive"):
            app.send_task("x")
        with inherit_kind("interactive"):
            app.send_task("x")
        app.send_task("y")
    assert whose(sent) == [
        ("interactive", "acme", "r1"),
        ("interactive", "acme", "r1"),
        ("batch", "other", "r1"),
        ("batch", "acme", "r1"),
    ]


def test_a_block_without_a_kind_keeps_that_of_everything_around(make_app: Any, sent: Any) -> None:
    app = make_app()
    fair = Fair(app, kinds={"mail": "interactive"})
    with fair.kind("batch"), fair.inherit(tenant="acme"):
        app.send_task("mail")
    (message,) = sent()
    assert (message.kind, message.header.tenant) == ("batch", "acme")
    assert message.header.covers_children


def test_a_declared_kind_wins_and_the_tenant_stays(make_app: Any, sent: Any) -> None:
    app = make_app()
    Fair(app, kinds={"bulk": "batch"})
    with Fair.inherit("interactive", tenant="acme"):
        app.send_task("bulk")
    assert whose(sent) == [("batch", "acme", None)]


def test_identities_are_bounded_and_made_text(app: Celery, fair: Fair, sent: Any) -> None:
    with fair.inherit(tenant=7, request_id="r" * 10_000):
        app.send_task("x")
    assert whose(sent) == [("interactive", "7", "r" * MAX_TEXT)]


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(UnknownKind), Fair.inherit("bacth"):  # type: ignore[arg-type]
        pass
    with pytest.raises(UnknownKind), inherit_kind(None):  # type: ignore[arg-type]
        pass


def test_a_tasks_own_work_goes_on_for_its_tenant_unless_a_block_in_it_says_another(
    app: Celery, fair: Fair, working: Any
) -> None:
    @app.task
    def child() -> None: ...

    @app.task
    def other() -> None: ...

    @app.task
    def parent() -> None:
        child.delay()
        with fair.inherit(tenant="other"):
            other.delay()

    with working(app, queues=["celery", "celery.batch"]) as log:
        with fair.inherit("batch", tenant="acme", request_id="r1"):
            result = parent.delay()
        result.get(timeout=10, disable_sync_subtasks=False)
    lines = {row["task"].rpartition(".")[2]: row["fair"].split(" ", 2)[2] for row in log.headers}
    assert '"tenant":"acme"' in lines["child"]
    assert '"tenant":"other"' in lines["other"]
    assert all('"request_id":"r1"' in line for line in lines.values())


def test_a_retry_keeps_the_tenant_of_its_first_attempt_in_any_block(
    app: Celery, fair: Fair, working: Any
) -> None:
    @app.task(bind=True, max_retries=1)
    def flaky(self: Any) -> None:
        with fair.inherit(tenant="other"):
            raise self.retry(countdown=0) if not self.request.retries else SystemError

    with working(app, queues=["celery"]) as log:
        with fair.inherit(tenant="acme"):
            result = flaky.delay()
        with pytest.raises(SystemError):
            result.get(timeout=10)
    lines = [row["fair"] for row in log.headers]
    assert len(lines) == 2
    assert all('"tenant":"acme"' in line for line in lines)


def test_an_eager_task_publishes_for_the_tenant_it_was_called_for(
    app: Celery, fair: Fair, sent: Any
) -> None:
    @app.task
    def parent() -> None:
        app.send_task("child")

    with fair.inherit("batch", tenant="acme", request_id="r1"):
        parent.apply().get(disable_sync_subtasks=False)
    assert whose(sent) == [("batch", "acme", "r1")]
