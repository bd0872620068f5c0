"""``celery -A proj fair doctor`` on real workers and brokers."""

from __future__ import annotations

import json

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.jobs.task import way_of
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.nodes.answering import TRIES

APP = "tests.apps.mixed"
QUIET = {
    "CELERY_FAIR__KINDS": '{"i.*": "interactive", "b.*": "batch", "*": "interactive"}',
    "CELERY_FAIR__INTERACTIVE_TIMEOUT_SECONDS": "60",
    "CELERY_FAIR__BATCH_TIMEOUT_SECONDS": "600",
}
NO_NOTE = ("--ignore", "F122")
"""The tests' Redis saves nothing."""


@pytest.fixture
def doctor(request, broker, monkeypatch):
    """``doctor()``: exit code and findings by id of ``fair doctor --json``, in this process."""

    def run(*arguments, url=None, **env) -> tuple[int, dict[str, dict]]:
        for name, value in {**QUIET, **env}.items():
            monkeypatch.setenv(name, value)
        app = mixed.make_app(broker if url is None else Broker("redis", url, url))
        # Shared tasks are every app's: those of other tests' modules that were imported here, too.
        for name in [name for name, task in app.tasks.items() if way_of(task)]:
            app.tasks.unregister(name)
        context = CLIContext(app=app, no_color=True, workdir=None)
        arguments = ["doctor", "--json", *NO_NOTE, *arguments]
        for _ in range(TRIES if "start" in request.fixturenames else 1):
            done = CliRunner().invoke(fair, arguments, obj=context)
            assert isinstance(done.exception, (SystemExit, type(None))), done.exception
            found = {each["id"]: each for each in json.loads(done.stdout)["findings"]}
            if "F102" not in found:  # that no worker has answered in its second
                break
        app.close()
        return done.exit_code, found

    return run


@pytest.fixture
def start(start_worker):
    """A worker of the app with the settings that the doctor has, and others."""

    def start(app=APP, **options):
        env = {**QUIET, **options.pop("env", {})}
        return start_worker(app, env=env, **options)

    return start


def start_both(start, *options):
    """Two workers at once."""
    for worker in [start(wait_ready=False, **one) for one in options]:
        worker.wait_for(worker.is_ready, "being ready", timeout=30)


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_deployment_in_order_has_no_finding(start, doctor):
    start_both(start, {}, {})
    assert doctor() == (0, {})


def test_a_queue_that_no_worker_consumes_is_found(start, doctor):
    start(queues="celery")
    code, found = doctor()
    assert code == 1
    assert list(found) == ["F103"]
    assert found["F103"]["subjects"] == ["celery.batch"]


def test_an_excluded_queue_is_found(start, doctor):
    start(args=["-X", "celery.batch"])
    assert list(doctor()[1]) == ["F103"]


def test_a_plain_worker_on_our_queue_is_found(start, doctor):
    start_both(start, {}, {"app": "tests.apps.plain"})
    code, found = doctor()
    assert code == 1
    assert list(found) == ["F104"]
    assert found["F104"]["subjects"] == ["w2@test"]


def test_workers_with_different_settings_are_found(start, doctor):
    start_both(start, {}, {"env": {"CELERY_FAIR__BATCH_SHARE": "0.3"}})
    code, found = doctor()
    assert code == 1
    assert found["F105"]["what"] == "batch_share is 0.2 on w1@test, 0.3 on w2@test"


@pytest.mark.brokers("rabbitmq")
def test_a_worker_that_does_not_answer_consumes_all_the_same(start, doctor):
    mute = {"CELERY_CONF": '{"worker_enable_remote_control": false}'}
    start_both(start, {"queues": "celery"}, {"queues": "celery.batch", "env": mute})
    assert doctor() == (0, {})


@pytest.mark.brokers("rabbitmq")
def test_a_gevent_worker_on_rabbitmq_is_found(start, doctor):
    start(pool="gevent")
    # At a tenth of a second a frame it may answer too late, and then no worker has.
    found = wait_until(lambda: doctor()[1].keys() - {"F102"}, "an answer of the worker")
    assert found == {"F006"}


def test_no_worker_is_found_and_no_broker_asks_for_none(doctor):
    code, found = doctor()
    assert (code, list(found)) == (1, ["F102"])
    assert doctor("--no-broker") == (0, {})


def test_the_app_is_looked_at_even_when_the_broker_is_lost(redis_server, doctor):
    url = redis_server.url
    redis_server.kill()
    code, found = doctor(url=url, CELERY_FAIR__KINDS="{}")
    assert code == 1
    assert {"F001", "F101"} <= found.keys()


def test_the_redis_behind_the_broker_and_what_waits_in_it_are_looked_at(redis_server, doctor):
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.lpush("celery.batch", "a message")
    code, found = doctor(url=redis_server.url)
    assert (code, list(found)) == (1, ["F102", "F120"])
    assert found["F102"]["what"].endswith("; messages that wait there: 1")
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "100kb")
    code, found = doctor(url=redis_server.url)
    assert (code, list(found)) == (1, ["F101", "F121"]), "what is full can't be asked by anybody"
    assert "was reached, and refuses" in found["F101"]["what"]


def test_a_task_that_waits_for_its_own_batch_child_is_found_and_logged(broker, start, doctor):
    worker = start("tests.apps.inverted", concurrency=1)
    mixed.make_app(broker).send_task("i.ask", [60])
    found_it = "whose children wait here for one"
    wait_until(lambda: found_it in worker.log_text(), "a word of the deadlock")
    assert "i.ask[" in worker.log_text()
    code, found = doctor("--ignore", "F112")
    assert (code, list(found)) == (1, ["F125"])
    assert found["F125"]["severity"] == "error"
    assert "Every slot (1) has a task whose children wait" in found["F125"]["what"]
    worker.kill()
