"""An interactive retry is run before what waits: it goes to the front of its queue."""

from __future__ import annotations

import json

import pytest

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish

BACKLOG = 40
HANDFUL = 12
"""Tasks that may run before a retry: in a slot, in a pipe, held, or dealt by the broker's turns."""
SETTINGS = {"CELERY_FAIR__RESERVE": "0"}
QUORUM = {"task_create_missing_queue_type": "quorum", "task_default_queue_type": "quorum"}
QUICKLY_RESTORED = {
    "broker_transport_options": {"visibility_timeout": 4, "unacked_restore_interval": 1}
}


@pytest.fixture
def conf():
    return {}


@pytest.fixture
def app(broker, conf):
    app = mixed.make_app(broker, **conf)
    yield app
    app.close()


@pytest.fixture
def start(start_worker, conf):
    def start(pool="prefork", slots=2, env=None, **options):
        environ = {**SETTINGS, "CELERY_CONF": json.dumps(conf), **(env or {})}
        return start_worker(
            "tests.apps.mixed", pool=pool, concurrency=slots, env=environ, **options
        )

    return start


def passed(journal, since="retry", label="again"):
    """How many tasks began between the retry of ``label``, or its start, and its next attempt.

    A child that has to connect first, to publish its retry, is overtaken by others meanwhile.
    """
    events = [(entry.event, entry.label) for entry in journal.entries()]
    begin = events.index((since, label))
    end = events.index(("start", label), begin + 1)
    return sum(event == "start" for event, _ in events[begin + 1 : end])


def _retry_before_a_backlog(app, journal, count=BACKLOG, seconds=0.05):
    again = app.tasks["i.retrying"].apply_async(("again",))
    publish(app, "i.sleep", labels("i", count), seconds)
    return again


def _wait_for_all(journal, count=BACKLOG):
    journal.wait_finished("again", *labels("i", count), timeout=60)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_a_retry_runs_before_what_waits(broker, app, start, journal, pool):
    again = _retry_before_a_backlog(app, journal)
    start(pool)
    _wait_for_all(journal)
    assert passed(journal) <= HANDFUL
    attempts = [entry for entry in journal.entries() if entry.label == "again"]
    assert {entry.task_id for entry in attempts} == {again.id}
    assert [entry.event for entry in attempts] == ["start", "retry", "start", "finish"]


@pytest.mark.brokers("rabbitmq")
def test_it_does_so_on_a_single_slot(broker, app, start, journal):
    """Its lane is shut after each task, and its consumers begin again, the front's first."""
    _retry_before_a_backlog(app, journal)
    start("threads", slots=1)
    _wait_for_all(journal)
    assert passed(journal) <= HANDFUL


@pytest.mark.parametrize("conf", [QUORUM], ids=["quorum"])
@pytest.mark.brokers("rabbitmq")
def test_it_does_so_on_quorum_queues(broker, app, start, journal, conf):
    _retry_before_a_backlog(app, journal)
    start()
    _wait_for_all(journal)
    assert passed(journal) <= HANDFUL


# Not filesystem://, of which kombu reads messages while they are written: a child that publishes
# a retry may be the end of its worker, plain Celery's too.
@pytest.mark.brokers("sqlite")
def test_it_does_so_where_the_worker_looks_at_each_queue_in_turn(broker, app, start, journal):
    _retry_before_a_backlog(app, journal, 60, 0.01)
    start()
    _wait_for_all(journal, 60)
    assert passed(journal) <= 2 * HANDFUL


@pytest.mark.parametrize(
    "env",
    [{"CELERY_FAIR__FRONT_QUEUES": "false"}, {"CELERY_FAIR__MODE": "observe"}],
    ids=["off", "observe"],
)
@pytest.mark.brokers("redis")
def test_it_waits_behind_all_others_where_that_is_off(broker, app, start, journal, env):
    _retry_before_a_backlog(app, journal, 60, 0.01)
    start(env=env)
    _wait_for_all(journal, 60)
    assert passed(journal, since="start") > 40


@pytest.mark.parametrize("conf", [QUICKLY_RESTORED], ids=["early ack"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_what_is_in_front_outlives_its_worker(broker, app, start, journal, conf):
    """Its second attempt waits in front for its time, and the worker is killed meanwhile."""
    again = app.tasks["i.retrying"].apply_async(("again",), {"countdown": 3.0})
    worker = start()
    journal.wait(lambda entries: any(e.event == "retry" for e in entries), what="the retry")
    wait_until(lambda: ask(app, worker.hostname, "scheduled"), "the retry in the worker")
    worker.kill()
    publish(app, "i.sleep", ["other"])
    start()
    journal.wait_finished("again", "other", timeout=30)
    assert {entry.task_id for entry in journal.entries() if entry.label == "again"} == {again.id}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_the_front_comes_and_goes_with_its_queue(broker, app, start, journal, pool):
    worker = start(pool, args=("-Q", "celery"))

    def consumed():
        return {queue["name"] for queue in ask(app, worker.hostname, "active_queues")}

    wait_until(lambda: consumed() == {"celery", "celery.front"}, "the queue and its front")
    app.control.add_consumer("extra", destination=[worker.hostname], reply=True, timeout=5)
    wait_until(lambda: {"extra", "extra.front"} <= consumed(), "the new queue and its front")
    app.tasks["i.retrying"].apply_async(("again",), queue="extra")
    journal.wait_finished("again", timeout=20)
    app.control.cancel_consumer("extra", destination=[worker.hostname], reply=True, timeout=5)
    wait_until(lambda: consumed() == {"celery", "celery.front"}, "neither of them")


ALLOWED = (
    "celery",
    "celery.batch",
    "*pidbox*",
    "_kombu*",
    "unacked*",
    "celery-task-meta*",
    "*fair*",
)


def test_a_user_who_may_not_have_fronts_is_served_as_by_celery(start_redis, start_worker, journal):
    """One key that is refused would fail the BRPOP of them all."""
    server = start_redis()
    keys = [f"~{pattern}" for pattern in (*ALLOWED, "celery\x06*", "celery.batch\x06*")]
    with server.client(0) as client:
        rules = ["reset", "on", ">secret", "+@all", "&*", *keys]
        client.execute_command("ACL", "SETUSER", "limited", *rules)
    url = f"redis://limited:secret@127.0.0.1:{server.port}/0"
    app = mixed.make_app(Broker("redis", url, url))
    _retry_before_a_backlog(app, journal, 60, 0.01)
    worker = start_worker("tests.apps.mixed", broker=Broker("redis", url, url), pool="prefork")
    _wait_for_all(journal, 60)
    assert passed(journal, since="start") > 40
    assert worker.log.read_text().count("the queue celery.front can't be had") == 1
    app.close()


def test_so_it_is_on_rabbitmq(shared_rabbitmq, start_worker, journal):
    """A publish to a queue that isn't there is lost without a word."""
    vhost = shared_rabbitmq.new_vhost()
    shared_rabbitmq.ctl("add_user", "limited", "secret")
    shared_rabbitmq.ctl("set_permissions", "-p", vhost, "limited", r"^(?!.*\.front$)", ".*", ".*")
    url = f"amqp://limited:secret@127.0.0.1:{shared_rabbitmq.port}/{vhost}"
    app = mixed.make_app(Broker("rabbitmq", url, "rpc://"))
    _retry_before_a_backlog(app, journal, 60, 0.01)
    worker = start_worker("tests.apps.mixed", broker=Broker("rabbitmq", url, "rpc://"))
    _wait_for_all(journal, 60)
    assert passed(journal, since="start") > 40
    assert worker.log.read_text().count("the queue celery.front can't be had") == 1
    app.close()
