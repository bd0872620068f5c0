"""The tests' own machinery: brokers, workers and journal do what the other tests assume."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.brokers.process import ChildDiedError
from tests.brokers.waiting import wait_until
from tests.nodes.nursery import ROOT, Nursery


@pytest.mark.brokers("redis", "rabbitmq", "filesystem", "sqlite")
def test_a_worker_runs_what_the_plain_app_publishes(start_worker, plain_app, journal):
    worker = start_worker()
    plain_app.tasks["noop"].delay("hello")
    start, finish = journal.wait_finished("hello")
    assert (start.event, finish.event) == ("start", "finish")
    assert start.pid == worker.pid


@pytest.mark.parametrize("pool", ["solo", "threads", "prefork", "gevent", "eventlet"])
def test_every_pool_runs_a_task_and_leaves_nothing_behind(pool, start_worker, plain_app, journal):
    worker = start_worker(pool=pool)
    plain_app.tasks["noop"].delay("hello")
    journal.wait_finished("hello")
    worker.close()
    assert worker.members() == []


def test_a_worker_asked_to_stop_ends_with_exit_code_0(start_worker):
    assert start_worker(pool="threads").stop() == 0


def test_a_worker_killed_in_its_main_process_leaves_no_child(start_worker, plain_app, journal):
    worker = start_worker(pool="prefork")
    plain_app.tasks["sleeper"].delay("long", 60)
    journal.wait_started("long")
    assert len(worker.children()) == 2
    worker.kill(main_only=True)
    worker.close()
    assert worker.members() == []


def test_the_journal_tells_what_runs_and_how_it_ended(start_worker, plain_app, journal):
    start_worker()
    plain_app.tasks["retrying"].delay("again", times=1)
    plain_app.tasks["failing"].delay("bad")
    plain_app.tasks["sleeper"].delay("long", 60)
    journal.wait_finished("again")
    journal.wait_count(1, "error")
    journal.wait_started("long")
    assert journal.labels("retry") == ["again"]
    assert journal.started().count("again") == 2
    assert journal.running() == ["long"]


def test_a_worker_that_is_forked_leads_a_session_of_its_own_and_says_how_it_ended(start_worker):
    worker = start_worker()
    parent = psutil.Process(worker.pid).parent()
    assert parent.cmdline()[1:3] == ["-m", "tests.nodes.nursery"]
    assert os.getsid(worker.pid) == worker.pid
    worker.kill()
    assert worker.exit_code == -signal.SIGKILL


def test_what_is_forked_for_a_test_that_stops_waiting_is_not_taken_for_the_next(
    tmp_path, monkeypatch
):
    """As pytest-timeout and Ctrl-C do, wherever the test is."""
    nursery = Nursery()
    command, env = [sys.executable, "-m", "celery"], {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (tmp_path / "log").open("wb") as output, contextlib.closing(nursery):
        assert nursery.can(command, env, ROOT)
        with monkeypatch.context() as stopped:
            stopped.setattr(nursery, "_receive", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                nursery.fork([*command, "no-such-command"], env, output)
        assert nursery.fork([*command, "--version"], env, output).wait(30) == 0


def _interrupted():
    raise KeyboardInterrupt


def test_a_worker_that_says_how_python_starts_is_started_for_itself(start_worker):
    worker = start_worker(env={"PYTHONDONTWRITEBYTECODE": "yes"})
    assert psutil.Process(worker.pid).cmdline()[1:3] == ["-m", "celery"]


def test_a_worker_that_cannot_start_fails_with_its_log(start_worker):
    with pytest.raises(ChildDiedError, match="The module no_such_module was not found"):
        start_worker("no_such_module")


def test_a_new_run_is_not_taken_for_ready_by_the_log_of_the_last(start_worker):
    worker = start_worker()
    first = worker.pid
    worker.restart()
    assert worker.pid != first
    assert worker.log_text().count(" ready.") == 1
    assert worker.log_text(all_runs=True).count(" ready.") == 2


def test_a_redis_with_aof_keeps_a_message_over_its_own_sigkill(start_redis):
    server = start_redis(append_only=True)
    with server.client() as client:
        client.lpush("queue", "message")
    server.kill()
    server.start()
    with server.client() as client:
        assert client.lrange("queue", 0, -1) == ["message"]


def test_each_test_has_an_empty_virtual_host_of_its_own(shared_rabbitmq):
    names = [shared_rabbitmq.new_vhost() for _ in range(45)]  # more than come with the start
    assert len(set(names)) == 45
    assert shared_rabbitmq.queues(names[-1]) == []


def test_a_child_dies_with_the_process_that_started_it(tmp_path):
    """Even where that process had no time for its finalizers."""
    start_and_die = (
        "import os, sys, pathlib; from tests.brokers.process import ChildProcess;"
        "child = ChildProcess('child', ['sleep', '60'], pathlib.Path(sys.argv[1])); child.spawn();"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", start_and_die, str(tmp_path / "log")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert parent.returncode == -signal.SIGKILL
    child = int(parent.stdout)
    wait_until(lambda: _is_gone(child), "the child's end")


def _is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
