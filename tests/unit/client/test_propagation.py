"""How a kind travels: canvas, children, retries, replacements, beat; run by Celery's worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.backends.cache import CacheBackend
from celery.beat import ScheduleEntry, Scheduler

from celery_fair import Fair, FairHeader, fair_task

BATCH, INTERACTIVE = ("celery.batch", "batch"), ("celery", "interactive")
Working = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def bulk(fair: Fair) -> Any:
    @fair_task(kind="batch")
    def bulk(*args: Any) -> str:
        return "bulk"

    return bulk


@pytest.fixture
def quick(fair: Fair) -> Any:
    @fair_task(kind="interactive")
    def quick(*args: Any) -> str:
        return "quick"

    return quick


@pytest.fixture
def plain(fair: Fair) -> Any:
    @fair_task
    def plain(*args: Any) -> str:
        return "plain"

    return plain


# -- canvas ---------------------------------------------------------------------------------------


def test_each_message_of_a_nested_canvas_goes_to_its_own_kinds_queue(
    app: Celery, bulk: Any, quick: Any, working: Working
) -> None:
    """chain(group(4 batch) | batch body | interactive), and the same inside another one (M1)."""
    inner = chain(group(bulk.s(n) for n in range(4)), bulk.s(), quick.s())
    with working(app) as log:
        assert chain(quick.s(), inner, bulk.s()).delay().get(timeout=10) == "bulk"
    assert log.of("bulk") == [BATCH] * 6
    assert log.of("quick") == [INTERACTIVE] * 2


@pytest.mark.parametrize("inherit", [True, False])
def test_inheriting_priorities_changes_nothing_about_kinds(
    make_app: Any, working: Working, inherit: bool
) -> None:
    app = make_app(task_inherit_parent_priority=inherit)
    Fair(app, kinds={"bulk": "batch", "quick": "interactive"})
    bulk = app.task(name="bulk")(lambda_named("bulk"))
    quick = app.task(name="quick")(lambda_named("quick"))
    with working(app) as log:
        result = chain(group(bulk.s(n) for n in range(4)), bulk.s(), quick.s()).delay()
        result.get(timeout=10)
    assert log.of("bulk") == [BATCH] * 5
    assert log.of("quick") == [INTERACTIVE]


def lambda_named(name: str) -> Any:
    def run(*args: Any) -> str:
        return name

    run.__name__ = name
    return run


def test_a_signatures_kind_survives_the_journey_in_another_message(
    app: Celery, plain: Any, working: Working
) -> None:
    canvas = chain(
        plain.si().set(kind="batch"),
        plain.si().set(kind="interactive"),
        group(plain.si().set(kind="batch"), plain.si().set(kind="interactive")),
    )
    with working(app) as log:
        canvas.apply_async(serializer="json").get(timeout=10)
    assert log.of("plain")[:2] == [BATCH, INTERACTIVE]
    assert sorted(log.of("plain")[2:]) == sorted([BATCH, INTERACTIVE])


def test_undeclared_links_of_a_chain_inherit_from_the_one_before(
    app: Celery, bulk: Any, plain: Any, working: Working
) -> None:
    with working(app) as log:
        chain(bulk.s(), plain.s(), plain.s()).delay().get(timeout=10)
    assert log.of("plain") == [BATCH, BATCH]


def test_a_groups_kind_is_its_members(app: Celery, plain: Any, working: Working) -> None:
    with working(app) as log:
        group(plain.s(), plain.s()).apply_async(kind="batch").get(timeout=10)
    assert log.of("plain") == [BATCH, BATCH]


def test_callbacks_and_errbacks_have_their_own_kind(
    app: Celery, bulk: Any, quick: Any, fair: Fair, working: Working
) -> None:
    @fair_task(kind="batch")
    def fails() -> None:
        raise ValueError

    @fair_task(kind="interactive")
    def tell(task_id: str) -> str:
        return task_id

    with working(app) as log:
        bulk.apply_async(link=quick.s()).get(timeout=10)
        failed = fails.apply_async(link_error=tell.si("x"))
        failed.get(timeout=10, propagate=False)
        wait_for(lambda: log.of("tell") and log.of("quick"))
    assert log.of("quick") == [INTERACTIVE]
    assert log.of("tell") == [INTERACTIVE]


def test_undeclared_callbacks_and_errbacks_inherit(
    app: Celery, bulk: Any, plain: Any, fair: Fair, working: Working
) -> None:
    @fair_task(kind="batch")
    def fails() -> None:
        raise ValueError

    @fair_task
    def tell(task_id: str) -> None: ...

    with working(app) as log:
        bulk.apply_async(link=plain.s()).get(timeout=10)
        fails.apply_async(link_error=tell.s()).get(timeout=10, propagate=False)
        wait_for(lambda: log.of("plain") and log.of("tell"))
    assert log.of("plain") == [BATCH]
    assert log.of("tell") == [BATCH]


def test_an_errback_that_nobody_runs_for_has_the_failed_tasks_kind(
    app: Celery, plain: Any, quick: Any, bulk: Any, sent: Any
) -> None:
    """A hard time limit: the main process publishes it, where no task is running."""
    bulk.apply_async(link_error=[plain.si(), quick.si()])
    (message,) = sent()
    for errback in message.embedded["errbacks"]:
        app.signature(errback).apply_async()
    assert sorted((m.task.rpartition(".")[2], m.kind) for m in sent()) == [
        ("plain", "batch"),
        ("quick", "interactive"),
    ]


def errback_kinds(message: Any) -> list[Any]:
    return [errback["options"].get("kind") for errback in message.embedded["errbacks"]]


def test_an_errback_is_written_a_kind_only_where_it_would_inherit_one(
    app: Celery, fair: Fair, plain: Any, quick: Any, bulk: Any, sent: Any
) -> None:
    asks = plain.si().set(kind="interactive")
    members = group(plain.si(), quick.si())  # a kind of the group's would go over its members'
    bulk.apply_async(link_error=[asks, quick.si(), members, plain.si()])
    with fair.kind("batch"):
        bulk.apply_async(link_error=[asks, quick.si()])
    assert [errback_kinds(message) for message in sent()] == [
        ["interactive", None, None, "batch"],
        ["interactive", "batch"],
    ]


def test_an_errback_follows_the_queue_that_the_task_was_sent_to(
    app: Celery, plain: Any, sent: Any
) -> None:
    plain.apply_async(queue="celery.batch", link_error=plain.si())
    (message,) = sent()
    assert message.embedded["errbacks"][0]["options"]["kind"] == "batch"


def test_a_chords_body_and_its_callbacks(
    app: Celery, bulk: Any, quick: Any, plain: Any, working: Working
) -> None:
    body = quick.s()
    body.link(plain.s())
    with working(app) as log:
        chord([bulk.s(), bulk.s()], body).delay().get(timeout=10)
        wait_for(lambda: log.of("plain"))
    assert log.of("bulk") == [BATCH] * 2
    assert log.of("quick") == [INTERACTIVE]
    assert log.of("plain") == [INTERACTIVE]


def test_a_failed_chords_errback(
    app: Celery, bulk: Any, quick: Any, fair: Fair, working: Working
) -> None:
    @fair_task(kind="batch")
    def fails() -> None:
        raise ValueError

    @fair_task(kind="batch")
    def tell(task_id: str) -> str:
        return task_id

    with working(app) as log:
        result = chord([fails.s(), bulk.s()], quick.s().on_error(tell.si("x"))).delay()
        result.get(timeout=10, propagate=False)
        wait_for(lambda: log.of("tell"))
    assert log.of("tell") == [BATCH]


@pytest.fixture
def without_native_chords(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result backend, as rpc and databases are, whose chords celery.chord_unlock polls for."""
    monkeypatch.setattr(CacheBackend, "implements_incr", False)


@pytest.mark.parametrize(
    ("around", "body", "unlock"),
    [
        (None, "quick", INTERACTIVE),
        (None, "bulk", INTERACTIVE),
        (None, "plain", INTERACTIVE),
        ("batch", "bulk", BATCH),
        ("batch", "plain", BATCH),
        ("batch", "quick", INTERACTIVE),
        ("interactive", "bulk", INTERACTIVE),
    ],
)
def test_the_poll_for_a_chord_is_batch_only_if_its_caller_and_its_body_are(
    request: pytest.FixtureRequest,
    app: Celery,
    fair: Fair,
    bulk: Any,
    without_native_chords: None,
    sent: Any,
    around: Any,
    body: str,
    unlock: Any,
) -> None:
    canvas = chord([bulk.s(), bulk.s()], request.getfixturevalue(body).s())
    if around:
        with fair.inherit(around):
            canvas.delay()
    else:
        canvas.delay()
    (poll,) = [m for m in sent() if m.task == "celery.chord_unlock"]
    assert (poll.queue, poll.kind) == unlock


def test_the_poll_for_a_chord_looks_at_what_its_body_begins_with(
    app: Celery, fair: Fair, bulk: Any, quick: Any, without_native_chords: None, sent: Any
) -> None:
    with fair.inherit("batch"):
        chord([bulk.s(), bulk.s()], chain(group(quick.s(), quick.s()), bulk.s())).delay()
        chord([bulk.s(), bulk.s()], chain(chain(quick.s(), bulk.s()), bulk.s())).delay()
        chord([bulk.s(), bulk.s()], chain(bulk.s(), quick.s())).delay()
    polls = [(m.queue, m.kind) for m in sent() if m.task == "celery.chord_unlock"]
    assert polls == [INTERACTIVE, BATCH, BATCH]


def test_the_poll_for_a_chord_goes_where_the_body_is_sent_by_name(
    app: Celery, fair: Fair, bulk: Any, quick: Any, without_native_chords: None, sent: Any
) -> None:
    chord([bulk.s(), bulk.s()], quick.s().set(queue="gpu")).delay()
    assert [m.queue for m in sent() if m.task == "celery.chord_unlock"] == ["gpu"]


def test_an_interactive_chord_ends_by_polling_in_its_own_lane(
    app: Celery, quick: Any, without_native_chords: None, working: Working
) -> None:
    app.conf.result_chord_retry_interval = 0.05
    with working(app) as log:
        assert chord([quick.s(), quick.s()], quick.s()).delay().get(timeout=10) == "quick"
    assert set(log.of("chord_unlock")) == {INTERACTIVE}
    assert log.of("quick") == [INTERACTIVE] * 3


# -- children -------------------------------------------------------------------------------------


@pytest.fixture
def parent(fair: Fair, plain: Any, quick: Any, bulk: Any) -> Any:
    @fair_task
    def parent() -> None:
        plain.delay()
        quick.delay()
        bulk.delay()

    return parent


def test_a_child_inherits_unless_it_says_otherwise(
    app: Celery, parent: Any, working: Working
) -> None:
    with working(app) as log:
        parent.apply_async(kind="batch").get(timeout=10)
    assert log.of("plain") == [BATCH]
    assert log.of("quick") == [INTERACTIVE]


def test_a_block_covers_the_declared_children_too(
    app: Celery, fair: Fair, parent: Any, quick: Any, working: Working
) -> None:
    with working(app) as log, fair.kind("batch"):
        parent.delay().get(timeout=10)
        chain(quick.s(), quick.s()).delay().get(timeout=10)
    assert {(queue, kind) for _, queue, kind in log.rows} == {BATCH}


def test_a_childs_child_that_asks_for_a_kind_ends_the_cover(
    app: Celery, fair: Fair, quick: Any, bulk: Any, working: Working
) -> None:
    @fair_task
    def inner() -> None:
        bulk.delay()

    @fair_task
    def outer() -> None:
        inner.apply_async(kind="interactive")

    with working(app) as log:
        with fair.kind("batch"):
            outer.delay().get(timeout=10)
        wait_for(lambda: log.of("bulk"))
    assert log.of("outer") == [BATCH]
    assert log.of("inner") == [INTERACTIVE]
    assert log.of("bulk") == [BATCH]


def test_a_block_inside_a_task_is_nearer_than_the_task(
    app: Celery, fair: Fair, plain: Any, working: Working
) -> None:
    @fair_task(kind="interactive")
    def parent() -> None:
        with fair.inherit("batch"):
            plain.delay()
        plain.delay()

    with working(app) as log:
        parent.delay().get(timeout=10)
    assert log.of("plain") == [BATCH, INTERACTIVE]


def test_a_child_of_a_message_without_a_header_inherits_from_its_queue(
    app: Celery, fair: Fair, plain: Any, working: Working
) -> None:
    """Published by a process that doesn't have celery-fair yet."""

    @fair_task(name="parent")
    def parent() -> None:
        plain.delay()

    parent.run  # noqa: B018 - registers it
    with working(app) as log:
        type(app).send_task(app, "parent", queue="celery.batch", headers={"fair": None})
        wait_for(lambda: log.of("plain"))
    assert log.of("plain") == [BATCH]


def test_who_asked_travels_to_the_children(
    app: Celery, fair: Fair, parent: Any, working: Working
) -> None:
    with working(app) as log:
        parent.apply_async(request_id="r1", tenant="acme").get(timeout=10)
    read = map(FairHeader.read, log.headers)
    assert {(one.request_id, one.tenant) for one in read if one} == {("r1", "acme")}
    assert len(log.headers) == 4


def test_map_starmap_and_chunks_have_the_kind_of_what_they_run(
    app: Celery, bulk: Any, quick: Any, sent: Any
) -> None:
    for task in (bulk, quick):
        task.map([1, 2]).delay()
        task.starmap([(1,), (2,)]).delay()
        task.chunks([(1,), (2,)], 1)()
    names = ["celery.map", "celery.starmap", "celery.starmap", "celery.starmap"]
    assert sorted((m.queue, m.kind, m.task) for m in sent()) == [
        (*place, name) for place in (INTERACTIVE, BATCH) for name in names
    ]


# -- retry and replace ----------------------------------------------------------------------------


def test_a_retry_keeps_kind_queue_and_first_publish(
    app: Celery, fair: Fair, working: Working
) -> None:
    @fair_task(bind=True, max_retries=3)
    def again(self: Any) -> None:
        if self.request.retries < 2:
            self.retry(countdown=0.1)

    before = time.time()
    with working(app) as log:
        again.apply_async(kind="batch", request_id="r1").get(timeout=10)
    assert log.of("again") == [BATCH] * 3
    first, second, third = (FairHeader.read(headers) for headers in log.headers)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.first_published == second.first_published == third.first_published
    assert first.ready_at == first.first_published >= before
    # Ready when its countdown ends, not when it was first published.
    assert first.ready_at + 0.1 <= second.ready_at
    assert second.ready_at + 0.1 <= third.ready_at
    assert third.request_id == "r1"


def test_a_retry_goes_on_covering_its_children(
    app: Celery, fair: Fair, quick: Any, working: Working
) -> None:
    @fair_task(bind=True)
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0)
        quick.delay()

    with working(app) as log, fair.kind("batch"):
        result = again.delay()
        result.get(timeout=10)
        wait_for(lambda: log.of("quick"))
    assert log.of("quick") == [BATCH]


def test_an_automatic_retry_keeps_them_too(app: Celery, fair: Fair, working: Working) -> None:
    @fair_task(autoretry_for=(ValueError,), retry_backoff=False, default_retry_delay=0)
    def flaky(attempts: list[int]) -> None:
        if flaky.request.retries < 1:
            raise ValueError

    with working(app) as log:
        flaky.apply_async(([],), kind="batch").get(timeout=10)
    assert log.of("flaky") == [BATCH] * 2


def test_a_retry_with_headers_of_its_own_keeps_them_too(
    app: Celery, fair: Fair, working: Working
) -> None:
    @fair_task(bind=True)
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0, headers={"trace": "x"})

    with working(app) as log:
        again.apply_async(kind="batch").get(timeout=10)
    assert log.of("again") == [BATCH] * 2
    one, two = map(_first_published, log.headers)
    assert one == two


def test_a_retry_can_change_the_kind_and_then_the_queue(
    app: Celery, fair: Fair, working: Working
) -> None:
    @fair_task(bind=True, kind="interactive")
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0, kind="batch")

    with working(app) as log:
        again.delay().get(timeout=10)
    assert log.of("again") == [INTERACTIVE, BATCH]
    one, two = map(_first_published, log.headers)
    assert one == two


def test_a_retry_that_names_its_queue_goes_there(app: Celery, fair: Fair, working: Working) -> None:
    @fair_task(bind=True, kind="interactive")
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0, kind="batch", queue="gpu")

    app.amqp.queues.select_add("gpu")
    with working(app) as log:
        again.delay().get(timeout=10)
    assert log.of("again") == [INTERACTIVE, ("gpu", "batch")]


def test_a_retry_stays_in_a_queue_that_was_named(app: Celery, fair: Fair, working: Working) -> None:
    @fair_task(bind=True, kind="batch")
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0)

    app.amqp.queues.select_add("gpu")
    with working(app) as log:
        again.apply_async(queue="gpu").get(timeout=10)
    assert log.of("again") == [("gpu", "batch")] * 2


def test_a_retry_keeps_a_kind_that_was_asked_for_against_the_queue(
    app: Celery, fair: Fair, working: Working
) -> None:
    @fair_task(bind=True)
    def again(self: Any) -> None:
        if self.request.retries < 1:
            self.retry(countdown=0)

    with working(app) as log:
        again.apply_async(kind="batch", queue="celery").get(timeout=10)
    assert log.of("again") == [("celery", "batch")] * 2


def test_headers_copied_to_another_task_are_not_a_retry(
    app: Celery, fair: Fair, quick: Any, working: Working
) -> None:
    """People hand their tracing headers on; the child is still a task of its own."""

    @fair_task(bind=True, kind="batch")
    def parent(self: Any) -> None:
        quick.apply_async(headers=self.request.headers)
        quick.apply_async(retries=1)

    with working(app) as log:
        parent.delay().get(timeout=10)
    assert log.of("quick") == [INTERACTIVE] * 2
    parents, *childs = map(_first_published, log.headers)
    assert min(childs) > parents


def test_a_replacement_keeps_the_kind_and_the_turn(
    app: Celery, fair: Fair, bulk: Any, working: Working
) -> None:
    @fair_task(bind=True, kind="interactive")
    def replaced(self: Any) -> None:
        self.replace(bulk.s())

    with working(app) as log:
        assert replaced.delay().get(timeout=10) == "bulk"
    assert log.of("bulk") == [INTERACTIVE]
    one, two = map(_first_published, log.headers)
    assert one == two


def test_a_replacement_can_ask_for_another_kind(
    app: Celery, fair: Fair, plain: Any, working: Working
) -> None:
    @fair_task(bind=True, kind="interactive")
    def replaced(self: Any) -> None:
        self.replace(plain.si().set(kind="batch"))

    with working(app) as log:
        assert replaced.delay().get(timeout=10) == "plain"
    assert log.of("plain") == [BATCH]


def test_what_follows_a_replacement_in_a_chain_has_its_own_kind(
    app: Celery, fair: Fair, bulk: Any, plain: Any, working: Working
) -> None:
    @fair_task(bind=True, kind="interactive")
    def replaced(self: Any) -> None:
        self.replace(plain.si())

    with working(app) as log:
        assert chain(replaced.si(), bulk.si()).delay().get(timeout=10) == "bulk"
    assert log.of("plain") == [INTERACTIVE]
    assert log.of("bulk") == [BATCH]


def test_a_replacement_by_a_group_keeps_the_kind_of_its_members(
    app: Celery, fair: Fair, bulk: Any, working: Working
) -> None:
    @fair_task(bind=True, kind="interactive")
    def replaced(self: Any) -> None:
        self.replace(group(bulk.s(), bulk.s()))

    with working(app) as log:
        replaced.delay().get(timeout=10)
    assert log.of("bulk") == [INTERACTIVE] * 2
    assert log.of("accumulate") == [INTERACTIVE]


# -- times ----------------------------------------------------------------------------------------


def test_a_countdown_and_an_eta_say_when_the_task_is_ready(app: Celery, fair: Fair) -> None:
    from datetime import datetime, timedelta, timezone

    now = time.time()
    at = datetime.fromtimestamp(now + 600, timezone.utc)
    assert ready(fair, now, countdown=60) == now + 60
    assert ready(fair, now, eta=at) == pytest.approx(now + 600)
    assert ready(fair, now, eta=at.isoformat()) == pytest.approx(now + 600)
    assert ready(fair, now, eta=at.replace(tzinfo=None)) == pytest.approx(now + 600)
    assert ready(fair, now, eta=at - timedelta(days=1)) == now
    assert ready(fair, now, countdown=-5) == now
    assert ready(fair, now, eta="nonsense") == now


def ready(fair: Fair, now: float, **options: Any) -> float:
    from celery_fair.publish import Publish

    return Publish(fair, "work", None, None, None, options, now).header.ready_at


# -- by name, and beat ----------------------------------------------------------------------------


def test_a_task_sent_by_name_has_its_declared_kind(app: Celery, bulk: Any, sent: Any) -> None:
    app.send_task(bulk.name)
    app.send_task(bulk.name, kind="interactive")
    assert [(m.queue, m.kind) for m in sent()] == [INTERACTIVE, BATCH]


def test_a_task_that_is_still_to_be_made_has_its_declared_kind(
    app: Celery, fair: Fair, sent: Any
) -> None:
    """Celery makes decorated tasks when the app is first used."""

    @app.task(name="work", fair_kind="batch")
    def work() -> None: ...

    assert not app.finalized
    app.send_task("work")
    assert [(m.queue, m.kind) for m in sent()] == [BATCH]


def test_options_by_position_are_understood(app: Celery, fair: Fair, sent: Any) -> None:
    app.send_task("work", (), {}, 60, None, "an-id", kind="batch")
    (message,) = sent()
    assert (message.headers["id"], message.queue) == ("an-id", "celery.batch")
    assert message.header.ready_at == pytest.approx(message.header.first_published + 60)


def test_beat_publishes_by_declaration_globs_and_options(
    make_app: Any, sent: Any, clean_process: None
) -> None:
    app = make_app()
    Fair(app, kinds={"nightly.*": "batch"})

    @fair_task(kind="batch", name="declared")
    def declared() -> None: ...

    scheduler = Scheduler(app, lazy=True)
    for name, options in [("declared", {}), ("nightly.x", {}), ("plain", {"kind": "batch"})]:
        scheduler.apply_async(
            ScheduleEntry(name, name, schedule=60, options=options, app=app), advance=False
        )
    scheduler.apply_async(
        ScheduleEntry("x", "celery.backend_cleanup", schedule=60, app=app), advance=False
    )
    assert [(m.task, m.queue) for m in sent()] == [
        ("celery.backend_cleanup", "celery"),
        ("declared", "celery.batch"),
        ("nightly.x", "celery.batch"),
        ("plain", "celery.batch"),
    ]


def wait_for(fact: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "it didn't happen"
        time.sleep(0.01)


def _first_published(headers: Any) -> float:
    header = FairHeader.read(headers)
    assert header is not None
    return header.first_published
