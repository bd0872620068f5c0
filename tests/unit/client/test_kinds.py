"""Which kind one publish gets: each source, and which of two wins."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import uuid
from collections.abc import Callable
from typing import Any

import celery
import pytest
from celery import Celery, Task

from celery_fair import Fair, FairHeader, NotInstalled, UnknownKind, fair_task, inherit_kind
from celery_fair.globs import Globs

BATCH, INTERACTIVE = ("celery.batch", "batch"), ("celery", "interactive")
Sent = Callable[[], list[Any]]


def placed(sent: Sent) -> list[tuple[str, str | None]]:
    return [(message.queue, message.kind) for message in sent()]


@pytest.fixture
def tasks(fair: Fair) -> dict[str, Any]:
    """One task of each declaration."""

    @fair_task(kind="batch")
    def bulk(x: int = 0) -> None: ...

    @fair_task(kind="interactive")
    def quick(x: int = 0) -> None: ...

    @fair_task
    def plain(x: int = 0) -> None: ...

    return {"bulk": bulk, "quick": quick, "plain": plain}


# -- each source ----------------------------------------------------------------------------------


def test_a_task_goes_to_the_queue_of_its_declared_kind(tasks: Any, sent: Sent) -> None:
    tasks["bulk"].delay()
    assert placed(sent) == [BATCH]
    tasks["quick"].delay()
    assert placed(sent) == [INTERACTIVE]


def test_a_task_that_says_nothing_has_the_default_kind(tasks: Any, sent: Sent) -> None:
    tasks["plain"].delay()
    assert placed(sent) == [INTERACTIVE]


def test_the_default_kind_can_be_batch(make_app: Any, sent: Sent) -> None:
    app = make_app()
    Fair(app, default_kind="batch")
    app.send_task("elsewhere.work")
    assert placed(sent) == [BATCH]


def test_one_call_can_have_another_kind(tasks: Any, sent: Sent) -> None:
    tasks["bulk"].apply_async((1,), kind="interactive")
    assert placed(sent) == [INTERACTIVE]


def test_a_kind_that_doesnt_exist_is_an_error_that_names_the_task(tasks: Any, sent: Sent) -> None:
    with pytest.raises(UnknownKind, match=r"plain: .*'bacth'; did you mean 'batch'\?") as caught:
        tasks["plain"].apply_async(kind="bacth")
    assert caught.value.kind == "bacth"
    assert sent() == []


@pytest.mark.parametrize("kind", ["bacth", 1, "", "Batch"])
def test_a_declaration_of_a_kind_that_doesnt_exist_is_an_error(kind: Any) -> None:
    with pytest.raises(UnknownKind):
        fair_task(kind=kind)(lambda: None)


def test_a_kind_by_position_is_an_error_with_a_cure() -> None:
    with pytest.raises(UnknownKind, match="by name"):
        fair_task("batch")


def test_globs_classify_what_cant_be_decorated(make_app: Any, sent: Sent) -> None:
    app = make_app()
    Fair(app, kinds={"reports.*": "batch", "reports.now": "interactive"})
    app.send_task("reports.monthly")
    app.send_task("reports.now")
    app.send_task("other.reports.x")
    assert [(m.task, m.queue) for m in sent()] == [
        ("reports.now", "celery"),
        ("other.reports.x", "celery"),
        ("reports.monthly", "celery.batch"),
    ]


def test_an_exact_name_beats_a_glob_that_stands_before_it(make_app: Any, sent: Sent) -> None:
    app = make_app()
    Fair(app, kinds={"*": "batch", "reports.now": "interactive"})
    app.send_task("reports.now")
    assert placed(sent) == [INTERACTIVE]


def test_names_from_elsewhere_dont_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery_fair.globs.MAX_NAMES", 3)
    globs = Globs({"b*": "batch"})
    assert [globs.find(name) for name in ("b1", "x", "b2", "b3", "b1")] == [
        "batch",
        None,
        "batch",
        "batch",
        "batch",
    ]
    assert len(globs._known) <= 3


def test_a_base_class_can_declare_a_kind(app: Celery, fair: Fair, sent: Sent) -> None:
    class Bulk(Task):
        fair_kind = "batch"

    @app.task(base=Bulk)
    def work() -> None: ...

    work.delay()
    assert placed(sent) == [BATCH]


def test_the_apps_own_decorator_can_say_it_too(app: Celery, fair: Fair, sent: Sent) -> None:
    @app.task(kind="batch")
    def work() -> None: ...

    work.delay()
    assert placed(sent) == [BATCH]


def test_the_apps_own_decorator_cant_say_it_wrong(app: Celery, fair: Fair) -> None:
    @app.task(kind="bacth")
    def work() -> None: ...

    with pytest.raises(UnknownKind, match="work"):
        work.delay()


def test_a_class_based_tasks_own_attribute_kind_means_nothing_to_us(
    app: Celery, fair: Fair, sent: Sent
) -> None:
    class Report(Task):
        name = "report"
        kind = "monthly"

    app.register_task(Report()).delay()
    assert placed(sent) == [INTERACTIVE]


@pytest.mark.parametrize("base", [None, type("Own", (Task,), {})])
def test_fair_task_takes_what_shared_task_takes(
    app: Celery, fair: Fair, sent: Sent, base: Any
) -> None:
    @fair_task(
        kind="batch",
        name="shop.summarize",
        bind=True,
        base=base,
        max_retries=7,
        autoretry_for=(ValueError,),
        acks_late=True,
        ignore_result=True,
    )
    def summarize(self: Any, document: int) -> int:
        """Summarize."""
        return document

    assert (summarize.name, summarize.max_retries) == ("shop.summarize", 7)
    assert (summarize.acks_late, summarize.ignore_result) == (True, True)
    assert summarize.__doc__ == "Summarize."
    assert summarize(4) == 4
    assert base is None or isinstance(summarize._get_current_object(), base)
    summarize.delay(7)
    assert placed(sent) == [BATCH]


@pytest.mark.skipif(celery.VERSION < (5, 7), reason="Celery < 5.7 takes their dumps only")
def test_fair_task_takes_pydantic_models(app: Celery, fair: Fair, sent: Sent) -> None:
    from pydantic import BaseModel

    class Document(BaseModel):
        number: int

    def summarize(document):
        return document.number

    summarize.__annotations__["document"] = Document
    task = fair_task(kind="batch", pydantic=True)(summarize)
    task.delay(Document(number=3))
    assert placed(sent) == [BATCH]
    assert task({"number": 3}) == 3


def test_who_asked_is_written_as_text_of_a_bounded_length(tasks: Any, sent: Sent) -> None:
    request = uuid.uuid4()
    tasks["plain"].apply_async(request_id=request, tenant="t" * 1000)
    (message,) = sent()
    header = FairHeader.read(message.headers)
    assert header is not None
    assert (header.request_id, header.tenant) == (str(request), "t" * 256)


# -- which of two wins ----------------------------------------------------------------------------


def test_around_a_block_the_kind_beats_declarations(tasks: Any, fair: Fair, sent: Sent) -> None:
    with fair.kind("batch"):
        for task in tasks.values():
            task.delay()
    assert placed(sent) == [BATCH] * 3
    tasks["quick"].delay()
    assert placed(sent) == [INTERACTIVE]


def test_the_call_beats_the_block_around_it(tasks: Any, fair: Fair, sent: Sent) -> None:
    with fair.kind("batch"):
        tasks["plain"].apply_async(kind="interactive")
    assert placed(sent) == [INTERACTIVE]


def test_the_inner_block_beats_the_outer_one(tasks: Any, fair: Fair, sent: Sent) -> None:
    with fair.kind("batch"):
        with fair.kind("interactive"):
            tasks["bulk"].delay()
        assert placed(sent) == [INTERACTIVE]
        tasks["quick"].delay()
        assert placed(sent) == [BATCH]


def test_an_inherited_kind_leaves_declarations_alone(tasks: Any, fair: Fair, sent: Sent) -> None:
    with fair.inherit("batch"):
        tasks["plain"].delay()
        tasks["quick"].delay()
    assert sorted(placed(sent)) == [INTERACTIVE, BATCH]


def test_globs_beat_an_inherited_kind_and_lose_to_a_declaration(make_app: Any, sent: Sent) -> None:
    app = make_app()
    Fair(app, kinds={"*": "batch"})

    @fair_task(kind="interactive", name="declared")
    def declared() -> None: ...

    with inherit_kind("interactive"):
        app.send_task("anything")
    declared.delay()
    assert [(m.task, m.queue) for m in sent()] == [
        ("declared", "celery"),
        ("anything", "celery.batch"),
    ]


def test_a_block_ends_when_it_raises(tasks: Any, fair: Fair, sent: Sent) -> None:
    with pytest.raises(ZeroDivisionError), fair.kind("batch"):
        1 / 0  # noqa: B018
    tasks["plain"].delay()
    assert placed(sent) == [INTERACTIVE]


def test_a_block_of_an_unknown_kind_is_an_error(fair: Fair) -> None:
    with pytest.raises(UnknownKind), fair.kind("bacth"):  # type: ignore[arg-type]
        pass


def test_the_block_holds_in_coroutines_and_their_threads(
    tasks: Any, fair: Fair, sent: Sent
) -> None:
    async def serve() -> None:
        with fair.kind("batch"):
            await asyncio.to_thread(tasks["plain"].delay)

    asyncio.run(serve())
    assert placed(sent) == [BATCH]


def test_a_thread_started_by_hand_needs_the_context_handed_over(
    tasks: Any, fair: Fair, sent: Sent
) -> None:
    with fair.kind("batch"):
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(tasks["plain"].delay,))
        thread.start()
        thread.join()
    assert placed(sent) == [BATCH]


# -- tasks of Celery's own (S15) ------------------------------------------------------------------

BUILT_IN = ["celery.chord_unlock", "celery.backend_cleanup", "celery.group", "celery.accumulate"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_celerys_own_tasks_are_interactive_whatever_the_default(
    make_app: Any, sent: Sent, name: str
) -> None:
    app = make_app()
    Fair(app, default_kind="batch", kinds={"*": "batch"})
    app.send_task(name)
    assert placed(sent) == [INTERACTIVE]


@pytest.mark.parametrize("name", BUILT_IN)
def test_celerys_own_tasks_keep_their_callers_kind(
    app: Celery, fair: Fair, sent: Sent, name: str
) -> None:
    with fair.inherit("batch"):
        app.send_task(name)
    assert placed(sent) == [BATCH]


def test_celerys_own_tasks_can_be_classified_by_their_name(make_app: Any, sent: Sent) -> None:
    app = make_app()
    Fair(app, kinds={"celery.backend_*": "batch"})
    app.send_task("celery.backend_cleanup")
    assert placed(sent) == [BATCH]


# -- without, switched off, and two of them -------------------------------------------------------


def test_without_a_fair_a_kind_is_an_error_and_not_silence(app: Celery, sent: Sent) -> None:
    @fair_task(kind="batch")
    def bulk() -> None: ...

    for option in ("kind", "request_id", "tenant"):
        with pytest.raises(NotInstalled, match=rf"bulk was called with {option}=.*Fair\(app\)"):
            bulk.apply_async(**{option: "batch"})
    with pytest.raises(NotInstalled):
        bulk.s().set(kind="batch").apply_async()
    bulk.delay()
    (message,) = sent()
    assert (message.queue, message.header) == ("celery", None)


def test_switched_off_kinds_are_taken_and_ignored(make_app: Any, sent: Sent) -> None:
    app = make_app(fair={"enabled": False})
    Fair(app)

    @fair_task(kind="batch")
    def bulk() -> None: ...

    bulk.apply_async(kind="batch", request_id="r", tenant="t", queue="celery", priority=3)
    (message,) = sent()
    assert (message.queue, message.header) == ("celery", None)
    assert not {"kind", "request_id", "tenant"} & set(message.properties)
    assert list(app.amqp.queues) == ["celery"]


def test_two_apps_keep_their_settings_apart(make_app: Any) -> None:
    one, two = make_app("one"), make_app("two")
    first, second = Fair(one, kinds={"work": "batch"}), Fair(two, queues={"batch": ["slow"]})
    assert (Fair.of(one), Fair.of(two)) == (first, second)
    assert (first.kind_of_task("work"), second.kind_of_task("work")) == ("batch", None)
    assert (first.kind_of_queue("slow"), second.kind_of_queue("slow")) == ("interactive", "batch")
    assert "slow" in two.amqp.queues
    assert "slow" not in one.amqp.queues


def test_a_shared_task_uses_the_fair_of_the_app_it_is_called_in(make_app: Any, sent: Sent) -> None:
    one, two = make_app("one"), make_app("two")
    Fair(one)

    @fair_task(kind="batch")
    def bulk() -> None: ...

    one.set_current()
    bulk.apply_async(kind="batch")
    two.set_current()
    bulk.delay()
    assert [(m.queue, m.kind) for m in sent()] == [("celery", None), BATCH]
