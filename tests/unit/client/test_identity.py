"""The same request sent again: who gets which handle, and what is sent for it."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from typing import Any

import fakeredis
import pytest
from celery import chain, group

from celery_fair import BadOption, Fair, QueueFull, SettingsError, fair_task
from celery_fair.identity import scripts
from celery_fair.internals import Connected
from celery_fair.state import State


class Redis:
    """A Redis in this process, which can be taken away, and what was asked of it."""

    def __init__(self) -> None:
        self.client = fakeredis.FakeRedis()
        self.is_there = True
        self.connects = 0

    def connect(self) -> Connected:
        self.connects += 1
        if not self.is_there:
            raise ConnectionError("refused")
        return Connected(self.client, "pre.", self.client.close)

    def leave(self, state: State) -> None:
        self.is_there = False
        state.close()

    def run(self, call: Any) -> Any:
        state = State(self.connect)
        return state.call(call)

    def forget_twin_time(self) -> None:
        """As if the last copy had been sent long ago."""
        for key in self.client.keys("pre._celery_fair.copies.*"):
            self.client.hset(key, "twin_at", 0)

    def copies(self, id: str) -> dict[str, str]:
        found = self.client.hgetall(f"pre._celery_fair.copies.{id}")
        return {key.decode(): value.decode() for key, value in found.items()}


@pytest.fixture
def redis() -> Redis:
    return Redis()


@pytest.fixture
def shop(app: Any, redis: Redis) -> Any:
    """An app that deduplicates for a minute; its own tasks have no other options."""
    fair = Fair(app, deduplicate_seconds=60)
    fair.identity._state = State(redis.connect)

    @app.task(name="answer")
    def answer(*args: Any, **kwargs: Any) -> None: ...

    @app.task(name="plain")
    def plain(*args: Any) -> None: ...

    plain.fair_deduplicate_seconds = 0
    return answer


def work(*args: Any) -> None: ...


def send(task: Any, *args: Any, request_id: str | None = "r1", **options: Any) -> Any:
    return task.apply_async(args, request_id=request_id, **options)


# What is the same request


def test_the_same_request_gets_the_first_ones_handle_and_sends_nothing(shop, sent):
    first = send(shop, 1)
    again = send(shop, 1)
    assert again.id == first.id
    assert type(again) is type(first)
    assert len(sent()) == 1


def test_fifty_at_once_send_one_message(shop, sent):
    ids: list[str] = []
    barrier = threading.Barrier(10)

    def publish() -> None:
        barrier.wait()
        ids.extend(send(shop, 1).id for _ in range(5))

    threads = [threading.Thread(target=publish) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 50
    assert len(set(ids)) == 1
    assert len(sent()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"request_id": "r2"},
        {"tenant": "globex"},
        {"tenant": None},
        {"args": (2,)},
        {"args": ("1",)},
        {"args": (), "kwargs": {"number": 1}},
    ],
)
def test_another_id_tenant_or_argument_is_another_request(shop, other):
    usual = {"args": (1,), "request_id": "r1", "tenant": "acme"}
    first, second = shop.apply_async(**usual), shop.apply_async(**{**usual, **other})
    assert first.id != second.id
    assert shop.apply_async(**usual).id == first.id


def test_two_tasks_of_one_request_are_two(shop, app):
    @app.task(name="other")
    def other(*args: Any) -> None: ...

    assert send(shop, 1).id != send(other, 1).id


def test_the_order_of_keywords_makes_no_difference(shop):
    first = shop.apply_async(kwargs={"a": 1, "b": {"x": 1, "y": 2}}, request_id="r1")
    second = shop.apply_async(kwargs={"b": {"y": 2, "x": 1}, "a": 1}, request_id="r1")
    assert first.id == second.id


def test_send_task_by_name_is_the_same_request_as_the_tasks_own_call(shop, app):
    assert send(shop, 1).id == app.send_task("answer", (1,), request_id="r1").id


def test_what_a_web_request_publishes_has_its_id(shop):
    def serve(tenant: str) -> str:
        with Fair.inherit(tenant=tenant, request_id="r1"):
            return shop.delay(1).id

    assert serve("acme") == serve("acme") != serve("globex")


# What is published as any other


@pytest.mark.parametrize(
    "options",
    [
        {"request_id": None},
        {"countdown": 5},
        {"task_id": "mine"},
        {"group_id": "g"},
        {"request_id": "x" * 256},
        {"retries": 1},
    ],
)
def test_a_call_that_is_no_plain_request_is_sent_each_time(shop, sent, options):
    for _ in range(2):
        send(shop, 1, **options)
    assert len(sent()) == 2


def test_a_task_with_a_callback_is_sent_each_time(shop, sent):
    for link in ("link", "link_error"):
        for _ in range(2):
            send(shop, 1, **{link: shop.si(2)})
    assert len(sent()) == 4


def test_groups_and_chains_are_sent_each_time(shop, sent):
    with Fair.inherit(request_id="r1"):
        for _ in range(2):
            group(shop.si(1), shop.si(1)).apply_async()
            chain(shop.si(1), shop.si(1)).apply_async()
    assert len(sent()) == 6


def test_a_task_that_says_so_is_sent_each_time(shop, app, sent):
    for _ in range(2):
        send(app.tasks["plain"], 1)
    assert len(sent()) == 2


def test_arguments_that_cannot_be_serialized_are_celerys_to_refuse(shop, redis):
    with pytest.raises(Exception, match="serializ"):
        send(shop, object())
    assert redis.client.keys("*") == []


def test_without_the_setting_no_redis_is_looked_for(app, fair, sent, caplog):
    task = app.task(name="answer")(work)
    assert send(task).id != send(task).id
    assert fair.identity._state is None


def test_a_task_may_ask_for_it_alone(app, fair, redis, sent):
    fair.identity._state = State(redis.connect)

    @fair_task(deduplicate_seconds=5)
    def lonely() -> None: ...

    app.set_default()
    assert send(lonely).id == send(lonely).id


@pytest.mark.parametrize("seconds", [-1, "5", True])
def test_no_number_of_seconds_is_refused(seconds):
    with pytest.raises(BadOption, match="deduplicate_seconds"):
        fair_task(deduplicate_seconds=seconds)


def test_nor_is_it_taken_from_a_task_that_says_it_otherwise(shop):
    shop.fair_deduplicate_seconds = "a minute"
    with pytest.raises(BadOption, match="fair_deduplicate_seconds of answer: expected seconds"):
        send(shop, 1)


def test_asking_for_it_without_a_redis_is_one_sentence(app):
    Fair(app, deduplicate_seconds=60)
    with pytest.raises(SettingsError, match=r"expected a Redis .* \(set state_url"):
        send(app.task(name="answer")(work))


# Moving to the front


def test_a_second_later_a_copy_is_sent_once_to_the_front(shop, sent, redis):
    first = send(shop, 1)
    (original,) = sent()
    redis.forget_twin_time()
    assert {send(shop, 1, expires=60).id for _ in range(3)} == {first.id}
    (twin,) = sent()
    assert twin.headers["id"] == first.id
    assert twin.header.first_published == original.header.first_published
    assert twin.header.ready_at >= original.header.ready_at
    assert twin.header.once != original.header.once
    assert twin.headers["expires"] is None
    assert redis.copies(first.id)["twins"] == "1"


def test_what_expires_is_never_sent_twice(shop, sent, redis):
    first = send(shop, 1, expires=60)
    redis.forget_twin_time()
    assert send(shop, 1, expires=60).id == first.id
    assert len(sent()) == 1
    for key in redis.client.keys("*"):
        assert 0 < redis.client.ttl(key) <= 60


@pytest.mark.parametrize("state", ["running", "retrying", "done"])
def test_nothing_is_sent_for_one_that_does_not_wait(shop, sent, redis, state):
    first = send(shop, 1)
    redis.client.hset(
        f"pre._celery_fair.copies.{first.id}",
        mapping={"state": state, "until": int(time.time() * 1000) + 30_000, "twin_at": 0},
    )
    assert send(shop, 1).id == first.id
    assert len(sent()) == 1


def test_one_whose_worker_is_silent_is_sent_again_under_its_id(shop, sent, redis):
    first = send(shop, 1)
    redis.client.hset(
        f"pre._celery_fair.copies.{first.id}",
        mapping={"state": "running", "until": int(time.time() * 1000) - 1, "twin_at": 0},
    )
    assert send(shop, 1).id == first.id
    assert len(sent()) == 2


def test_one_that_ended_badly_is_sent_anew(shop, sent, redis):
    first = send(shop, 1)
    (original,) = sent()
    redis.run(scripts.start(first.id, original.header.once, 0))
    redis.run(scripts.end(first.id, original.header.once, 0, scripts.OVER))
    assert redis.client.keys("*") == []
    assert send(shop, 1).id != first.id


# Whatever goes wrong


def test_a_publish_that_fails_gives_its_request_back(shop, redis, monkeypatch):
    def refuse(*args: Any, **options: Any) -> None:
        raise OSError("the broker is down")

    monkeypatch.setattr(shop.app.amqp, "send_task_message", refuse)
    with pytest.raises(OSError, match="the broker is down"):
        send(shop, 1)
    assert redis.client.keys("*") == []


@pytest.fixture
def full(make_app, redis):
    """An app whose queue can be filled."""
    app = make_app()
    fair = Fair(app, deduplicate_seconds=60, interactive_max_backlog=5)
    fair.identity._state = State(redis.connect)
    task = app.task(name="answer")(work)

    def fill() -> None:
        def refuse(kind: str) -> None:
            raise QueueFull(kind, 5, 5, 1.0)

        fair.admission.ask = refuse

    return task, fill


def test_one_that_is_refused_gives_its_request_back(full, redis):
    task, fill = full
    fill()
    for _ in range(2):
        with pytest.raises(QueueFull):
            send(task)
    assert redis.client.keys("*") == []


def test_a_copy_of_one_that_waits_is_not_refused(full, redis):
    task, fill = full
    first = send(task)
    redis.forget_twin_time()
    fill()
    assert send(task).id == first.id
    assert redis.copies(first.id)["twins"] == "1"


def test_a_publish_that_fails_after_a_copy_was_sent_leaves_the_copy(shop, redis):
    first = send(shop, 1)
    redis.forget_twin_time()
    send(shop, 1)
    (request,) = (key.decode() for key in redis.client.keys("pre._celery_fair.request.*"))
    digest = request.rpartition(".")[2]
    assert redis.run(scripts.release(digest, first.id)) == 0


def test_while_redis_is_away_everything_is_sent_and_it_is_said_once(shop, sent, redis, caplog):
    fair = Fair.of(shop.app)
    redis.is_there = False
    with caplog.at_level(logging.INFO, "celery_fair.state"):
        ids = {send(shop, 1).id for _ in range(20)}
        assert len(ids) == len(sent()) == 20
        assert redis.connects == 1  # then nobody asks for a while
        assert fair.identity.unasked == 20
        redis.is_there = True
        fair.identity.state._away_until = 1e-9  # the while is over
        assert send(shop, 1).id == send(shop, 1).id
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "secret" not in caplog.text


def test_a_message_of_an_outage_bears_no_mark(shop, sent, redis):
    redis.is_there = False
    send(shop, 1)
    (message,) = sent()
    assert message.header.once is None


# What is kept


def test_what_is_kept_tells_nothing_of_the_request_and_expires(shop, redis):
    send(shop, "a secret question", request_id="an-id", tenant="acme")
    for key in redis.client.keys("*"):
        assert 0 < redis.client.ttl(key) <= scripts.WAIT_SECONDS
        kept = f"{key} {redis.client.get(key) if b'request' in key else redis.client.hgetall(key)}"
        assert not any(word in kept for word in ("secret", "an-id", "acme"))


def test_redis_may_keep_it_in_its_short_form(shop, redis):
    first = send(shop, 1)
    assert max(len(value) for value in redis.copies(first.id).values()) <= 64


def test_a_result_is_not_promised_for_longer_than_its_backend_keeps_it(make_app, redis):
    app = make_app(result_expires=10)
    fair = Fair(app, deduplicate_seconds=60)
    fair.identity._state = State(redis.connect)
    first = send(app.task(name="answer")(work))
    assert redis.copies(first.id)["keep"] == "10000"


def test_a_context_of_its_own_has_no_request(shop, sent):
    context = contextvars.Context()
    for _ in range(2):
        context.run(shop.delay, 1)
    assert len(sent()) == 2
