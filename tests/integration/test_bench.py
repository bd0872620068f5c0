"""``celery -A proj fair bench`` on real workers: plain ones and fair ones, and what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

PLAIN, FAIR = "tests.apps.plain", "tests.apps.mixed"
PROBE = ("-I", "celery_fair.probe")
QUEUES = ("celery", "celery.batch")
BINDING = "_kombu.binding.amq.direct"


@pytest.fixture
def bench():
    """``bench(app, broker, …)``: a running ``fair bench``; ``told(it)`` is what it found."""
    started = []

    def start(app, broker, *arguments):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "-A",
                app,
                "fair",
                "bench",
                "--json",
                "-t",
                "1.5",
                *arguments,
            ],
            cwd=ROOT,
            env={**os.environ, **broker.environ(), "JOURNAL": os.devnull},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def told(process) -> dict:
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err, err
    assert out, err
    return {"code": process.returncode, **json.loads(out)}


def recorded(broker) -> dict:
    app = mixed.make_app(broker)
    context = CLIContext(app=app, no_color=True, workdir=None)
    arguments = ["bench", "--record", "--seconds=0.1", "--json", "-t", "1.5"]
    done = CliRunner().invoke(fair, arguments, obj=context)
    app.close()
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def wait_for(report, kind, quantile="p50") -> float:
    return report["kinds"][kind]["wait_seconds"][quantile]


def test_a_flood_shows_what_fair_workers_do_for_interactive_tasks(
    start_worker, shared_redis, bench
):
    sites, workers = {}, []
    for app, database in ((PLAIN, 61), (FAIR, 62)):
        url = shared_redis.url_of(database)
        with shared_redis.client(database) as client:
            client.flushdb()
        sites[app] = Broker("redis", url, url)
        workers.append(start_worker(app, broker=sites[app], args=PROBE, wait_ready=False))
    for worker in workers:
        worker.wait_for(worker.is_ready, "being ready", timeout=30)
    running = {
        app: bench(
            app, broker, "--flood=40", "--flood-seconds=0.3", "--test-broker=127.0.0.1",
            "--rate=8", "--seconds=3", "--patience=1.5",
        )
        for app, broker in sites.items()
    }  # fmt: skip
    plain, ours = (told(running[app]) for app in (PLAIN, FAIR))

    assert plain["workers"]["plain"]
    assert ours["workers"]["with_celery_fair"]
    # Forty tasks of 0.3 s stand before a plain worker's two slots: 6 s, and the bench lasts 4.5.
    assert wait_for(plain, "interactive") > 4 * wait_for(ours, "interactive")
    assert "p50" in plain["kinds"]["interactive"]["wait_seconds"]["at_least"]
    assert ours["kinds"]["interactive"]["sent"] == 24
    assert ours["kinds"]["interactive"]["ran"] >= 12
    assert plain["utilisation"] > 0.8
    assert 0 < ours["slots_in_use"]["batch"] <= 2
    record = recorded(sites[FAIR])
    assert (record["source"], record["slots"]) == ("record", 2)
    for database in (61, 62):
        with shared_redis.client(database) as client:
            wait_until(
                lambda client=client: (
                    not client.exists(*QUEUES, BINDING) and not client.keys("*bench*")
                ),
                "nothing of the bench at the broker",
            )


@pytest.mark.brokers("rabbitmq")
def test_plain_workers_on_rabbitmq_tell_it_without_a_result_backend(start_worker, broker, bench):
    start_worker(PLAIN, backend="disabled://")
    report = told(bench(PLAIN, broker, "--seconds=0.6", "--rate=5"))
    assert report["code"] == 0
    assert report["kinds"]["interactive"]["ran"] == report["kinds"]["batch"]["ran"] == 3
    assert report["kinds"]["batch"]["wait_seconds"]["at_least"] == []


def test_what_was_measured_is_told_when_the_worker_dies_and_when_the_broker_does(
    start_worker, start_redis, bench, tmp_path
):
    server = start_redis()
    broker = Broker("redis", server.url, server.url)
    worker = start_worker(FAIR, broker=broker)
    long = ("--seconds=60", "--rate=20", "--test-broker=127.0.0.1")

    def have_run():
        return worker.log_text().count("celery_fair.probe") >= 60

    first = bench(FAIR, broker, *long)
    worker.wait_for(have_run, "some probes")
    first.send_signal(signal.SIGINT)
    report = told(first)
    assert (report["code"], report["ended"]) == (130, "interrupted")
    assert report["kinds"]["interactive"]["ran"] >= 2

    second = bench(FAIR, broker, *long)
    done = worker.log_text().count("succeeded")
    worker.wait_for(lambda: worker.log_text().count("succeeded") > done + 40, "more probes")
    worker.kill()
    server.kill()
    report = told(second)
    assert (report["code"], report["ended"]) == (69, "broker lost")
    assert report["kinds"]["interactive"]["ran"] >= 1
