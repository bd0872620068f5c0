"""A look at Redis finds one message among many, whatever lies there, and takes nothing."""

from __future__ import annotations

import json
import time

import pytest
from celery import Celery

from celery_fair import Fair
from celery_fair.cli import looking_redis
from celery_fair.cli.looking import look_for, oldest_in
from celery_fair.observe.place import Place

SECONDS = 5.0


@pytest.fixture
def app(redis_url):
    app = Celery("looked at", broker=redis_url, set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": "shop:"}

    @app.task(name="a", shared=False)
    def a():
        pass

    yield app
    app.close()


@pytest.fixture
def redis(app):
    with app.pool.acquire() as connection:
        yield connection.default_channel.client


def send(app, number=1, **options):
    return [app.tasks["a"].apply_async(queue="work", **options).id for _ in range(number)]


def test_its_place_is_that_in_which_it_is_consumed(app, redis):
    ids = send(app, 5)
    assert [look_for(app, id, ["work"], SECONDS).seen.before for id in ids] == [0, 1, 2, 3, 4]
    assert redis.llen("work") == 5, "nothing was taken"


def test_fronts_and_steps_of_priority_come_before_it(app):
    """kombu's Redis transport serves 0 first, and 9 last."""
    (last,) = send(app, priority=9)
    send(app, 2, priority=0)
    app.tasks["a"].apply_async(queue="work.front")
    seen = look_for(app, last, ["other", "work"], SECONDS).seen
    assert (seen.queue, seen.before, seen.in_front) == ("work", 3, 1)


def test_pages_go_on_where_the_last_ended(app, monkeypatch):
    monkeypatch.setattr(looking_redis, "FIRST_PAGE", 3)
    ids = send(app, 8)
    assert [look_for(app, id, ["work"], SECONDS).seen.before for id in ids] == list(range(8))


def test_few_are_read_before_their_size_is_known(app, monkeypatch):
    """Ten megabytes each, as some send them, would be a gigabyte in a page of a hundred."""
    monkeypatch.setattr(looking_redis, "BYTES", 1)
    ids = send(app, 30)
    found = look_for(app, ids[-1], ["work"], SECONDS)
    assert "only the first 10 messages: there are more" in found.looked


def test_a_look_is_bounded_and_says_so(app, monkeypatch):
    monkeypatch.setattr(looking_redis, "FIRST_PAGE", 3)
    monkeypatch.setattr(looking_redis, "MESSAGES", 3)
    ids = send(app, 8)
    found = look_for(app, ids[-1], ["work"], SECONDS)
    assert found.seen is None
    assert "only the first 3 messages: there are more" in found.looked
    assert found.lengths == {"work": 8}


@pytest.mark.parametrize("id", ['"', "é", "\x1b[31m", "x" * 255, "{}", "\\u00e9", "*"])
def test_whatever_the_id_is_it_is_found_and_no_other(app, id):
    send(app, 2)
    send(app, task_id=id)
    assert look_for(app, id, ["work"], SECONDS).seen.before == 2
    assert look_for(app, id + "!", ["work"], SECONDS).seen is None


def test_what_is_no_message_is_passed_over(app, redis):
    (id,) = send(app)
    for junk in (b"\xff", b"[]", b"null", json.dumps({"headers": id}), f'"{id}"', "[" * 5000 + id):
        redis.rpush("work", junk)
    assert look_for(app, id, ["work"], SECONDS).seen.before == 6


def test_since_when_the_first_in_line_waits_is_seen(app, redis):
    assert oldest_in(app, ["work"], SECONDS) is None
    Fair(app)
    before = time.time()
    send(app, 2)
    first = oldest_in(app, ["other", "work"], SECONDS)
    send(app, 2)
    assert before <= first == oldest_in(app, ["work"], SECONDS)
    redis.rpush("work", b"[")
    assert oldest_in(app, ["work"], SECONDS) is None


def test_what_was_given_out_is_known_with_the_time_at_which_it_comes_back(app):
    (id,) = send(app, countdown=60)
    with app.pool.acquire() as connection, connection.channel() as channel:
        channel.basic_consume("work", False, lambda message: None, "tag")
        connection.drain_events(timeout=2)
        seen = look_for(app, id, ["work"], SECONDS).seen
    assert seen.place is Place.UNACKNOWLEDGED
    assert (seen.queue, seen.task) == ("work", "a")
    assert seen.back_at - seen.delivered_at == 3600.0
    assert seen.eta is not None
