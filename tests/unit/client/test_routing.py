"""Which queue a publish goes to, and that its destination comes from one source only."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celery
import pytest
from celery import Celery
from kombu import Exchange, Queue

from celery_fair import Fair, fair_task

Sent = Callable[[], list[Any]]
PAGE = Path(__file__).parents[3] / "docs" / "settings.md"

# Celery deprecates queue= in decorators, and people have it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(?s).*task attribute:celery.exceptions.CDeprecationWarning"
)


def one(sent: Sent) -> Any:
    (message,) = sent()
    return message


# -- the table of the settings page (M4) ----------------------------------------------------------

SAID = {"none": "none", "dict": "a queue", "function": "a queue", True: "a queue", False: "none"}


def documented(call: bool, decorator: bool, routes: str) -> str:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| call |")) + 2
    for line in lines[start:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        asked = (SAID[call], SAID[decorator], SAID[routes])
        if all(cell in ("any", said) for cell, said in zip(cells, asked, strict=False)):
            return cells[3]
    raise AssertionError("no row")


@pytest.mark.parametrize("mapped", [False, True], ids=["unmapped", "mapped"])
@pytest.mark.parametrize("kind", [None, "batch"], ids=["no kind", "batch"])
@pytest.mark.parametrize("routes", ["none", "dict", "function"])
@pytest.mark.parametrize("decorator", [False, True], ids=["", "decorator"])
@pytest.mark.parametrize("call", [False, True], ids=["", "call"])
def test_the_queue_is_the_one_that_the_table_says(
    make_app: Any,
    sent: Sent,
    call: bool,
    decorator: bool,
    routes: str,
    kind: Any,
    mapped: bool,
) -> None:
    route: Any = {"dict": {"work": {"queue": "by_route", "priority": 7}}, "none": None}.get(
        routes, lambda *args, **kwargs: {"queue": "by_route", "priority": 7}
    )
    app = make_app(task_routes=route)
    # Mapped to the other kind than the one that is declared.
    other = "interactive" if kind == "batch" else "batch"
    named = ["at_call", "at_task", "by_route"]
    rest = ["celery"] if other == "batch" else ["celery.batch"]
    queues = {other: named, ("batch" if other == "interactive" else "interactive"): rest}
    Fair(app, queues=queues if mapped else {})
    options = {"queue": "at_task"} if decorator else {}
    task = app.task(name="work", fair_kind=kind, **options)(work)
    task.apply_async(**({"queue": "at_call"} if call else {}))

    message = one(sent)
    where = {
        "the call's queue": "at_call",
        "the decorator's queue": "at_task",
        "the route's queue": "by_route",
        "the first queue of its kind": "celery.batch" if kind == "batch" else "celery",
    }[documented(call, decorator, routes)]
    assert message.queue == where
    # The priority that stands with the route's queue goes with no other one.
    assert message.properties["priority"] == (7 if where == "by_route" else 0)
    own = kind or "interactive"
    assert message.kind == (other if mapped and where in named else own)


def work() -> None: ...


# -- one source (S14) -----------------------------------------------------------------------------


def test_a_route_without_a_queue_doesnt_hide_the_kind(make_app: Any, sent: Sent) -> None:
    app = make_app(task_routes={"work": {"priority": 5}})
    Fair(app, kinds={"work": "batch"})
    app.send_task("work")
    message = one(sent)
    assert (message.queue, message.properties["priority"]) == ("celery.batch", 5)


def test_the_calls_own_priority_stands(make_app: Any, sent: Sent) -> None:
    app = make_app(task_routes={"work": {"queue": "mine", "priority": 5}})
    Fair(app)
    app.send_task("work", priority=2)
    message = one(sent)
    assert (message.queue, message.properties["priority"]) == ("mine", 2)


def test_a_route_to_the_same_queue_as_the_calls_adds_its_priority(
    make_app: Any, sent: Sent
) -> None:
    app = make_app(task_routes={"work": {"queue": "mine", "priority": 5}})
    Fair(app)
    app.send_task("work", queue="mine")
    assert one(sent).properties["priority"] == 5


def test_the_decorators_priority_belongs_to_the_decorators_queue(app: Celery, sent: Sent) -> None:
    Fair(app)
    task = app.task(name="work", queue="at_task", priority=6)(work)
    task.apply_async(queue="at_call")
    assert one(sent).properties["priority"] == 0
    task.apply_async()
    assert one(sent).properties["priority"] == 6


def test_a_decorators_priority_without_a_queue_goes_with_any(app: Celery, sent: Sent) -> None:
    Fair(app)
    app.task(name="work", priority=6, fair_kind="batch")(work).delay()
    message = one(sent)
    assert (message.queue, message.properties["priority"]) == ("celery.batch", 6)


def test_the_default_priority_goes_with_any_queue(make_app: Any, sent: Sent) -> None:
    app = make_app(task_default_priority=4)
    Fair(app)
    task = app.task(name="work", queue="at_task")(work)
    task.apply_async(queue="at_call")
    message = one(sent)
    assert (message.queue, message.properties["priority"]) == ("at_call", 4)


def test_a_topic_routing_key_of_a_route_doesnt_join_another_queue(make_app: Any) -> None:
    topics = Exchange("topics", "topic")
    app = make_app(
        task_queues=[Queue("celery"), Queue("a", topics, routing_key="a.#")],
        task_routes={"work": {"queue": "celery", "routing_key": "celery.x"}},
    )
    Fair(app)
    keys = []
    with keep_keys(keys):
        app.send_task("work", queue="a")
    assert keys == [("topics", "a.#")]


def test_a_decorators_routing_key_belongs_to_the_decorators_queue(make_app: Any) -> None:
    topics = Exchange("topics", "topic")
    app = make_app(
        task_queues=[
            Queue("celery"),
            Queue("a", topics, routing_key="a.#"),
            Queue("b", topics, routing_key="b.#"),
        ]
    )
    Fair(app)
    task = app.task(name="work", queue="a", routing_key="a.x")(work)
    keys: list[Any] = []
    with keep_keys(keys):
        task.apply_async(queue="b")
        task.apply_async(queue="b", routing_key="b.y")
        task.delay()
    assert keys == [("topics", "b.#"), ("topics", "b.y"), ("topics", "a.x")]


def test_a_decorators_priority_goes_with_a_queue_of_the_calls(app: Celery, sent: Sent) -> None:
    Fair(app)
    app.task(name="work", priority=6)(work).apply_async(queue="at_call")
    message = one(sent)
    assert (message.queue, message.properties["priority"]) == ("at_call", 6)


def test_a_router_function_may_name_a_queue_by_a_string(make_app: Any, sent: Sent) -> None:
    app = make_app(task_routes=lambda *args, **kwargs: "mine")
    Fair(app)
    app.send_task("work")
    assert one(sent).queue == "mine"


def test_a_routing_key_alone_has_celerys_default_queue_with_it(app: Celery, fair: Fair) -> None:
    """Native delayed delivery looks at the queue of every route."""
    options: dict[str, Any] = {}
    fair.prepare("work", None, None, options)
    assert options["router"].route({"routing_key": "x"}, "work")["queue"].name == "celery"


def test_a_routing_key_alone_goes_where_celery_sends_it(app: Celery, sent: Sent) -> None:
    app.send_task("work", routing_key="x")
    celerys = one(sent).queue
    Fair(app, kinds={"*": "batch"})
    app.send_task("work", routing_key="x")
    assert one(sent).queue == celerys


def test_eight_threads_misroute_nothing(make_app: Any, app: Celery) -> None:
    """At the router: what Celery does with the answer is to take keys out of it."""
    shared = {"queue": "by_route", "priority": 7}
    app = make_app(task_routes=[lambda name, *a, **k: shared if name == "routed" else None])
    fair = Fair(app, kinds={"bulk": "batch"})
    assert fair.queues
    right = {"routed": ("by_route", 7), "bulk": ("celery.batch", None), "quick": ("celery", None)}
    wrong: list[Any] = []
    ask = route_by(fair)

    def publish() -> None:
        for name in itertools.islice(itertools.cycle(right), 20_000):
            routed = ask(name)
            if (routed["queue"].name, routed.get("priority")) != right[name]:
                wrong.append((name, routed))

    threads = [threading.Thread(target=publish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert shared == {"queue": "by_route", "priority": 7}


def route_by(fair: Fair) -> Callable[[str], dict[str, Any]]:
    """Ask the router that a publish would be given, without publishing."""

    def ask(name: str) -> dict[str, Any]:
        options: dict[str, Any] = {}
        fair.prepare(name, None, None, options)
        return options["router"].route({}, name)

    return ask


# -- other routers --------------------------------------------------------------------------------


def test_routes_set_after_ours_still_count(app: Celery, fair: Fair, sent: Sent) -> None:
    app.send_task("work")
    assert one(sent).queue == "celery"
    app.conf.update(task_routes={"work": "mine"})
    app.send_task("work")
    assert one(sent).queue == "mine"


def test_a_router_of_ones_own_has_the_last_word(app: Celery, fair: Fair, sent: Sent) -> None:
    class Own:
        def route(self, options: Any, name: str, *args: Any) -> Any:
            return {**options, "queue": app.amqp.queues["own"]}

    app.send_task("work", router=Own(), kind="batch")
    assert one(sent).queue == "own"


def test_the_kind_follows_a_mapped_queue(make_app: Any, sent: Sent) -> None:
    app = make_app(task_routes={"work": "reports"})
    Fair(app, queues={"batch": ["imports", "reports"]})
    app.send_task("work")
    message = one(sent)
    assert (message.queue, message.kind) == ("reports", "batch")


def test_a_kind_asked_for_against_the_queue_is_told_once(
    make_app: Any, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(task_routes={"work": "reports"})
    Fair(app, queues={"batch": ["imports", "reports"]})
    with caplog.at_level(logging.WARNING, logger="celery_fair"):
        app.send_task("work", kind="interactive")
        app.send_task("work", kind="interactive")
    assert [(m.queue, m.kind) for m in sent()] == [("reports", "interactive")] * 2
    assert caplog.text.count("the queue wins") == 1
    assert "'reports'" in caplog.text


# -- queues (T17, E7) -----------------------------------------------------------------------------


@pytest.mark.skipif(celery.VERSION < (5, 6), reason="Celery < 5.6 declares classic queues only")
def test_a_missing_queue_is_declared_as_celery_declares_missing_queues(make_app: Any) -> None:
    app = make_app(
        task_create_missing_queue_type="quorum", task_create_missing_queue_exchange_type="topic"
    )
    Fair(app)
    ours, celerys = app.amqp.queues["celery.batch"], app.amqp.queues["anything"]
    assert ours.queue_arguments == celerys.queue_arguments == {"x-queue-type": "quorum"}
    assert ours.exchange.type == celerys.exchange.type == "topic"


def test_without_missing_queues_ours_can_be_published_to(make_app: Any, sent: Sent) -> None:
    app = make_app(task_create_missing_queues=False)
    Fair(app, kinds={"*": "batch"})
    app.send_task("work")
    assert one(sent).queue == "celery.batch"


def test_a_queue_that_the_team_defines_keeps_its_arguments(make_app: Any) -> None:
    own = Queue("reports", Exchange("x"), "key", queue_arguments={"x-max-priority": 10})
    app = make_app(task_queues=[Queue("celery"), own])
    Fair(app, queues={"batch": ["reports"]})
    queue = app.amqp.queues["reports"]
    assert queue.queue_arguments == {"x-max-priority": 10}
    assert (queue.exchange.name, queue.routing_key) == ("x", "key")


def test_a_queue_can_be_mapped_by_its_alias(make_app: Any, sent: Sent) -> None:
    app = make_app(task_queues=[Queue("celery"), Queue("reports-v2", alias="reports")])
    fair = Fair(app, queues={"batch": ["reports"]}, kinds={"*": "batch"})
    app.send_task("work")
    assert one(sent).queue == "reports-v2"
    assert set(app.amqp.queues.consume_from) == {"celery", "reports-v2"}
    assert fair.kind_of_queue("reports-v2") == "batch"


def test_a_worker_consumes_every_queue_of_both_kinds(make_app: Any) -> None:
    app = make_app(task_queues=[Queue("celery")])
    Fair(app, queues={"batch": ["reports", "imports"]})
    assert set(app.amqp.queues.consume_from) == {"celery", "reports", "imports"}


def test_dash_q_and_dash_x_mean_what_they_say(make_app: Any) -> None:
    chosen, without = make_app(), make_app()
    Fair(chosen)
    Fair(without)
    chosen.amqp.queues.select(["celery"])
    without.amqp.queues.deselect(["celery.batch"])
    assert set(chosen.amqp.queues.consume_from) == {"celery"}
    assert set(without.amqp.queues.consume_from) == {"celery"}


def test_the_queues_follow_the_apps_default_queue(make_app: Any, sent: Sent) -> None:
    app = make_app(task_default_queue="shop")
    fair = Fair(app, kinds={"*": "batch"})
    assert fair.queues == {"interactive": ("shop",), "batch": ("shop.batch",)}
    app.send_task("work")
    assert one(sent).queue == "shop.batch"


def test_a_default_queue_in_both_kinds_is_refused_with_a_cure(make_app: Any) -> None:
    fair = Fair(make_app(), queues={"batch": ["celery"]})
    with pytest.raises(ValueError, match="name the interactive queues too"):
        _ = fair.queues


def test_a_queue_that_nobody_mapped_has_the_default_kind(make_app: Any) -> None:
    fair = Fair(make_app(), default_kind="batch")
    assert fair.kind_of_queue("celery") == "interactive"
    assert fair.kind_of_queue("anything") == "batch"


def keep_keys(keys: list[Any]) -> Any:
    from contextlib import contextmanager

    from celery import signals

    @contextmanager
    def kept() -> Any:
        def note(exchange: str, routing_key: str, **_: Any) -> None:
            keys.append((exchange, routing_key))

        signals.before_task_publish.connect(note)
        yield
        signals.before_task_publish.disconnect(note)

    return kept()


def test_a_task_of_a_kind_can_name_its_queue(fair: Fair, app: Celery, sent: Sent) -> None:
    @fair_task(kind="batch", queue="gpu")
    def train() -> None: ...

    train.delay()
    message = one(sent)
    assert (message.queue, message.kind) == ("gpu", "batch")
