"""Where a tenant's tasks are sent, where a kind is spread over shards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from celery import Celery
from kombu import Exchange, Queue

from celery_fair import Fair, SettingsError
from celery_fair.front import without_parts
from celery_fair.policy.hands import hand_of
from celery_fair.routing import FairRouter
from celery_fair.sharding.names import home_of, is_shard, shard_like, shard_of, shards_of
from celery_fair.worker.fleet import Fleet
from tests.unit.client.test_admission import Broker
from tests.unit.worker.test_fleet import _member

HAND = [shard_of("celery.batch", index) for index in hand_of("acme", 8, 2)]


# names and declarations


def test_a_shard_is_known_by_its_name() -> None:
    assert shard_of("celery.batch", 3) == "celery.batch.shard-03"
    assert home_of("celery.batch.shard-03") == "celery.batch"
    assert is_shard("celery.batch.shard-63")
    assert not any(
        map(is_shard, ["celery.batch", "shard-03", "celery.shard-3", "a.shard-03.front"])
    )


def test_views_and_fleets_know_of_the_queue_alone() -> None:
    names = ["celery.batch", *shards_of("celery.batch", 2), "reports.shard-00"]
    assert without_parts(names) == ["celery.batch", "reports.shard-00"]
    more, fewer, me = Fleet("more"), Fleet("fewer"), _member("me")
    assert more.word(me, names[:3]) == fewer.word(me, names[:2])


def test_a_shard_has_the_kind_of_its_queue_whatever_the_number(app: Celery) -> None:
    fair = Fair(app, default_kind="interactive", batch_shards=2)
    assert fair.kind_of_queue("celery.batch.shard-40") == "batch"
    assert fair.kind_of_queue("celery.shard-40") == "interactive"
    assert fair.queues["batch"] == ("celery.batch",)
    assert fair.queues_and_shards["batch"] == ("celery.batch", *shards_of("celery.batch", 2))


def test_a_shard_is_declared_as_its_queue_is() -> None:
    home = Queue(
        "reports",
        Exchange("all", "topic", delivery_mode=1),
        "reports.#",
        queue_arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": "dead"},
        max_priority=9,
    )
    shard = shard_like(home, "reports.shard-00")
    assert shard.exchange.name == shard.name == shard.routing_key == "reports.shard-00"
    assert (shard.exchange.type, shard.exchange.delivery_mode) == ("topic", 1)
    assert shard.max_priority == 9
    assert shard.queue_arguments == {
        **home.queue_arguments,
        "x-dead-letter-routing-key": "reports.#",
    }


def test_a_queue_that_keeps_an_order_is_not_spread(app: Celery) -> None:
    ordered = Queue("ordered", queue_arguments={"x-single-active-consumer": True})
    app.conf.task_queues = [Queue("celery"), ordered]
    Fair(app, queues={"batch": ["ordered"]}, batch_shards=4)
    with pytest.raises(SettingsError, match=r"batch_shards: expected .* got 'ordered'"):
        app.amqp.queues  # noqa: B018


# the choice


@pytest.fixture
def spread(app: Celery) -> tuple[Fair, Broker]:
    fair = Fair(app, batch_shards=8, kinds={"b": "batch"})
    return fair, Broker(fair)


def _sent_to(app: Celery, name: str = "b", **options: Any) -> str:
    """Where a publish would go."""
    publish = _fair(app).prepare(name, (), {}, options)
    routed = FairRouter(app.amqp.router, publish).route(options, name)
    return str(routed["queue"].name)


def _send(app: Celery, number: int, **options: Any) -> Counter[str]:
    return Counter(_sent_to(app, **options) for _ in range(number))


def _fair(app: Celery) -> Fair:
    fair = Fair.of(app)
    assert fair is not None
    return fair


def test_a_tenant_uses_its_hand_evenly(app: Celery, spread: Any) -> None:
    assert _send(app, 100, tenant="acme") == dict.fromkeys(HAND, 50)


def test_the_shortest_of_the_hand_is_used_and_read_ten_times_a_second_at_most(
    app: Celery, spread: Any
) -> None:
    _, broker = spread
    broker.link.ready = {HAND[0]: 70, HAND[1]: 20}
    assert _send(app, 60, tenant="acme") == {HAND[0]: 5, HAND[1]: 55}
    assert broker.link.asked == 1
    broker.clock.now += 0.1
    broker.link.ready = {HAND[0]: 0, HAND[1]: 20}
    assert _send(app, 10, tenant="acme") == {HAND[0]: 10}
    assert broker.link.asked == 2


def test_the_shards_of_a_hand_take_turns_while_no_length_is_known(app: Celery, spread: Any) -> None:
    _, broker = spread
    broker.link.ready = ConnectionError("away")
    assert _send(app, 10, tenant="acme") == dict.fromkeys(HAND, 5)
    assert broker.link.asked == 1


def test_what_has_no_tenant_or_names_its_queue_goes_as_before(app: Celery, spread: Any) -> None:
    _, broker = spread
    assert _sent_to(app) == "celery.batch"
    assert _sent_to(app, tenant="acme", queue="elsewhere") == "elsewhere"
    assert broker.link.asked == 0


def test_task_routes_win(app: Celery) -> None:
    app.conf.task_routes = {"b": {"queue": "routed"}}
    Broker(Fair(app, batch_shards=8, kinds={"b": "batch"}))
    assert _sent_to(app, tenant="acme") == "routed"


def test_the_other_kind_has_no_shards(app: Celery, spread: Any) -> None:
    assert _sent_to(app, "i", tenant="acme") == "celery"


@pytest.mark.parametrize(("hand", "used"), [(1, 1), (3, 3), (64, 8)])
def test_the_hand_may_be_set(app: Celery, hand: int, used: int) -> None:
    Broker(Fair(app, batch_shards=8, tenant_hand=hand, kinds={"b": "batch"}))
    assert len(_send(app, 40, tenant="acme")) == used


def test_a_limit_counts_what_waits_in_all_shards(app: Celery) -> None:
    fair = Fair(app, batch_shards=2, batch_max_backlog=10, kinds={"b": "batch"})
    broker = Broker(fair)
    broker.link.ready = {"celery.batch": 3, "celery.batch.shard-00": 2, "celery.batch.shard-01": 4}
    assert fair.admission.backlog.of("batch") == 9
