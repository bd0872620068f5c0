"""A request that is sent again runs once, on real brokers, whoever dies meanwhile."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import redis

from celery_fair import Fair
from celery_fair.identity import scripts
from celery_fair.state import TIMEOUT_SECONDS, State
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish

RESERVE = {"CELERY_FAIR__RESERVE": "0"}


class Place:
    """A broker, the Redis that holds results and state, and an app to publish with."""

    def __init__(self, broker_url: str, redis_url: str, **settings: object) -> None:
        self.broker = Broker("url", broker_url, redis_url)
        self.settings = {"deduplicate_seconds": 60, **settings}
        self.app = mixed.make_app(self.broker, fair=self.settings)
        self.redis = redis.Redis.from_url(redis_url, decode_responses=True)

    @property
    def environ(self) -> dict[str, str]:
        return RESERVE | {
            f"CELERY_FAIR__{name.upper()}": str(value) for name, value in self.settings.items()
        }

    def send(self, label, *args, task="i.sleep", request_id="r1", **options):
        return self.app.tasks[task].apply_async((label, *args), request_id=request_id, **options)

    def forget(self, **fields: object) -> None:
        """As if the time of these fields had passed."""
        for key in self.redis.scan_iter("_celery_fair.copies.*"):
            self.redis.hset(key, mapping=dict.fromkeys(fields, 0) | fields)

    def send_copy(self, *args, **options):
        """Send the same request as one that waits, a second later."""
        self.forget(twin_at=0)
        return self.send(*args, **options)

    def duplicates(self, worker) -> int:
        kinds = ask(self.app, worker.hostname)["kinds"]
        return sum(kind["dropped"].get("duplicate", 0) for kind in kinds.values())

    def state_of(self, result) -> str | None:
        return self.redis.hget(f"_celery_fair.copies.{result.id}", "state")

    def wait_state(self, result, state: str) -> None:
        wait_until(
            lambda: self.state_of(result) == state, lambda: f"{state}: {self.state_of(result)}"
        )

    def close(self) -> None:
        Fair.of(self.app).uninstall()
        self.app.backend.result_consumer.stop()
        self.app.backend.client.connection_pool.disconnect()
        self.app.close()
        self.redis.close()


@pytest.fixture
def make_place():
    made = []

    def make(*urls, **settings):
        made.append(Place(*urls, **settings))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture(params=["redis", "rabbitmq"])
def place(request, make_place, redis_url):
    """RabbitMQ has its results, and so its state, in Redis."""
    url = redis_url if request.param == "redis" else request.getfixturevalue("rabbitmq_url")
    return make_place(url, redis_url)


@pytest.fixture
def redis_place(make_place, redis_url):
    return make_place(redis_url, redis_url)


@pytest.fixture
def start(start_worker):
    def start(place, pool="threads", slots=2, **options):
        return start_worker(
            "tests.apps.mixed",
            broker=place.broker,
            pool=pool,
            concurrency=slots,
            env=place.environ,
            **options,
        )

    return start


# Sent again


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_sent_fifty_times_by_ten_threads_it_runs_once(place, start, journal, pool):
    start(place, pool)
    results = []
    barrier = threading.Barrier(10)

    def publish_five() -> None:
        barrier.wait()
        results.extend(place.send("mine", task="noop") for _ in range(5))

    threads = [threading.Thread(target=publish_five) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result.get(timeout=20) for result in results} == {"mine"}
    assert len({result.id for result in results}) == 1
    place.wait_state(results[0], "done")
    assert place.send("mine", task="noop").get(timeout=5) == "mine"
    assert journal.started() == ["mine"]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_copy_of_one_that_ran_is_dropped_without_a_slot_or_a_word(
    redis_place, start, journal, pool
):
    place = redis_place
    first = place.send("mine", task="noop")
    assert place.send_copy("mine", task="noop").id == first.id
    worker = start(place, pool)
    assert first.get(timeout=20) == "mine"
    wait_until(lambda: place.duplicates(worker) == 1, "the copy to be dropped")
    place.send("other", task="noop", request_id=None).get(timeout=20)
    assert journal.started() == ["mine", "other"]
    assert first.state == "SUCCESS"
    assert ask(place.app, worker.hostname, "reserved") == []


@pytest.mark.parametrize("kind", ["i", "b"])
def test_sent_again_under_a_backlog_it_moves_to_the_front_and_runs_once(
    redis_place, start, journal, tmp_path, kind
):
    place = redis_place  # RabbitMQ takes turns between a front and its queue
    worker, free = start(place, slots=1), tmp_path / "free"
    publish(place.app, f"{kind}.until", ["long"], str(free))
    journal.wait_started("long")
    publish(place.app, f"{kind}.sleep", labels("rest", 20), 0.05)
    first = place.send("mine", task=f"{kind}.sleep")
    assert place.send_copy("mine", task=f"{kind}.sleep").id == first.id
    free.touch()
    journal.wait_finished("mine", *labels("rest", 20), timeout=20)
    wait_until(lambda: place.duplicates(worker) == 1, "the first message to be dropped")
    started = journal.started()
    assert started.index("mine") <= 4  # behind the one that ran, and those the worker had already
    assert started.count("mine") == 1


def test_in_observe_mode_a_copy_does_not_run_either(make_place, redis_url, start, journal):
    place = make_place(redis_url, redis_url, mode="observe")
    first = place.send("mine", task="noop")
    place.send_copy("mine", task="noop")
    worker = start(place)
    first.get(timeout=20)
    wait_until(lambda: place.duplicates(worker) == 1, "the copy to be dropped")
    assert journal.started() == ["mine"]
    place.wait_state(first, "done")


def test_another_tenant_with_the_same_id_and_arguments_has_a_run_of_its_own(
    redis_place, start, journal
):
    start(redis_place)
    results = [
        redis_place.send("mine", task="noop", tenant=tenant) for tenant in ("acme", "globex")
    ]
    assert len({result.id for result in results}) == 2
    for result in results:
        result.get(timeout=20)
    assert journal.started() == ["mine", "mine"]


# After its end


def test_after_its_time_the_same_request_runs_anew(make_place, redis_url, start, journal):
    place = make_place(redis_url, redis_url, deduplicate_seconds=0.5)
    start(place)
    first = place.send("mine", task="noop")
    first.get(timeout=20)
    wait_until(lambda: place.send("mine", task="noop").id != first.id, "the time to pass")
    journal.wait_finished("mine")
    journal.wait_count(2)
    wait_until(lambda: place.redis.keys("_celery_fair.[rc]*") == [], "all keys to expire")


def test_one_that_failed_runs_again(redis_place, start, journal):
    start(redis_place)
    first = redis_place.send("mine", task="failing")
    with pytest.raises(ValueError, match="mine"):
        first.get(timeout=20)
    wait_until(lambda: redis_place.state_of(first) is None, "the failure to be told")
    again = redis_place.send("mine", task="failing")
    assert again.id != first.id
    with pytest.raises(ValueError, match="mine"):
        again.get(timeout=20)


def test_a_retry_is_the_same_request_and_keeps_its_pause(redis_place, start, journal):
    worker = start(redis_place)
    first = redis_place.send("mine", 1, 1.0, task="retrying")
    redis_place.wait_state(first, "retrying")
    assert redis_place.send_copy("mine", 1, 1.0, task="retrying").id == first.id
    assert first.get(timeout=20) == 1
    assert journal.started() == ["mine", "mine"]
    assert redis_place.duplicates(worker) == 0
    redis_place.wait_state(first, "done")


def test_what_ends_as_the_worker_stops_is_told(redis_place, start, journal):
    worker = start(redis_place, "prefork")
    result = redis_place.send("mine", 0.7)
    journal.wait_started("mine")
    worker.stop()
    assert journal.finished() == ["mine"]
    redis_place.wait_state(result, "done")


# Whoever dies


def test_a_worker_that_dies_with_a_late_ack_runs_it_again(
    make_place, rabbitmq_url, redis_url, start, journal, tmp_path
):
    place, free = make_place(rabbitmq_url, redis_url), tmp_path / "free"
    worker = start(place, "prefork")
    first = place.send("mine", str(free), task="i.late_until")
    journal.wait_started("mine")
    worker.kill()
    free.touch()
    start(place, "prefork")
    first.get(timeout=20)
    assert len(journal.started()) == 2


def test_a_worker_that_dies_with_an_early_ack_leaves_it_to_who_sends_it_again(
    redis_place, start, journal, tmp_path
):
    free = tmp_path / "free"
    request = {"task": "i.until"}
    worker = start(redis_place)
    first = redis_place.send("mine", str(free), **request)
    journal.wait_started("mine")
    assert redis_place.send_copy("mine", str(free), **request).id == first.id  # it runs: no copy
    worker.kill()
    free.touch()
    start(redis_place)
    redis_place.forget(until=0)  # thirty seconds later
    assert redis_place.send_copy("mine", str(free), **request).id == first.id
    first.get(timeout=20)
    assert journal.started() == ["mine", "mine"]


def test_a_publisher_that_dies_before_its_message_leaves_it_to_who_sends_it_again(
    place, start, journal
):
    start(place)
    fair = Fair.of(place.app)
    options = {"request_id": "r1", "task_type": place.app.tasks["noop"]}
    died = fair.prepare("noop", ("mine",), {}, options).claim
    assert place.send("mine", task="noop").id == died.id
    result = place.send_copy("mine", task="noop")
    assert result.id == died.id
    assert result.get(timeout=20) == "mine"
    assert journal.started() == ["mine"]


# Without the state


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_redis_everything_runs_and_nothing_waits(
    make_place, redis_url, start_redis, start, journal, signum
):
    server = start_redis()
    place = make_place(redis_url, redis_url, state_url=server.url)
    worker = start(place)
    place.send("before", task="noop").get(timeout=20)
    marked = [place.send(label, task="noop") for label in labels("marked", 5)]
    for result in marked:
        result.get(timeout=20)
    server.send_signal(signum)
    try:
        begun = time.monotonic()
        results = [place.send("away", task="noop") for _ in range(20)]
        assert time.monotonic() - begun < 4
        for result in results:
            assert result.get(timeout=20) == "away"
        assert len({result.id for result in results}) == 20
        publish(place.app, "i.sleep", labels("plain", 10))
        journal.wait_finished(*labels("plain", 10))
        assert worker.running
    finally:
        server.send_signal(signal.SIGCONT)


def test_a_worker_that_finds_it_hanging_runs_what_is_marked_at_once(
    make_place, redis_url, start_redis, start, journal
):
    server = start_redis()
    place = make_place(redis_url, redis_url, state_url=server.url)
    for label in labels("marked", 20):
        place.send(label, task="noop")
    server.send_signal(signal.SIGSTOP)
    try:
        start(place)
        entries = journal.wait_finished(*labels("marked", 20))
    finally:
        server.send_signal(signal.SIGCONT)
    # Not each of them for the half second that one may wait for an answer.
    assert entries[-1].at - entries[0].at < 20 * TIMEOUT_SECONDS / 2 / 2
    wait_until(lambda: _states(server) == ["done"] * 20, "the ends to be told afterwards")


def _states(server) -> list[str]:
    with server.client() as client:
        return [client.hget(key, "state") for key in client.scan_iter("_celery_fair.copies.*")]


# Who was first


def test_of_a_thousand_tasks_with_two_copies_each_runs_once(redis_place, start, journal):
    place, names = redis_place, labels("task", 1000)
    with place.app.producer_or_acquire() as producer:
        for name in names:  # each beside its copy: two workers take them at the same time
            first = place.send(name, task="noop", request_id=name, producer=producer)
            place.redis.hset(f"_celery_fair.copies.{first.id}", "twin_at", 0)
            place.send(name, task="noop", request_id=name, producer=producer)
    for number in range(2):
        start(place, slots=4, hostname=f"race{number}@test", wait_ready=False)
    journal.wait_count(1000, timeout=30)
    wait_until(lambda: place.redis.llen("celery") == 0, "the copies to be dropped", timeout=20)
    wait_until(
        lambda: sum(ask(place.app, f"race{n}@test")["kinds"]["interactive"]["dropped"]["duplicate"]
                    for n in range(2)) == 1000,
        "each copy to be counted",
    )  # fmt: skip
    assert sorted(journal.started()) == sorted(names)


def test_a_key_prefix_is_the_brokers(make_place, redis_url):
    place = make_place(redis_url, redis_url)
    place.app.conf.broker_transport_options = {"global_keyprefix": "shop:"}
    place.send("mine")
    keys = place.redis.keys("*_celery_fair.[rc]*")
    assert len(keys) == 2
    assert all(key.startswith("shop:_celery_fair.") for key in keys)


def test_a_state_of_the_result_backend_has_its_prefix(make_place, rabbitmq_url, redis_url):
    place = make_place(rabbitmq_url, redis_url)
    place.app.conf.result_backend_transport_options = {"global_keyprefix": "shop:"}
    state = State.of(Fair.of(place.app))
    state.call(scripts.claim("d", "i", keep_seconds=1, wait_seconds=9, alone=False, at=0.0))
    state.close()
    keys = place.redis.keys("*_celery_fair.[rc]*")
    assert sorted(keys) == ["shop:_celery_fair.copies.i", "shop:_celery_fair.request.d"]
