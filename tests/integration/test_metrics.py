"""What Prometheus gets of real workers: from each of them, and from the exporter."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import urllib.request
from urllib.parse import urlencode

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.fixtures import need, watch
from tests.brokers.process import ChildProcess, free_port
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

APP = "tests.apps.mixed"
HERE = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def scrape(port):
    """The whole text, or nothing while nobody answers."""
    try:
        with HERE.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def value(port, name, **labels):
    """One sample's value, ``None`` if it isn't there."""
    for family in text_string_to_metric_families(scrape(port)):
        for sample in family.samples:
            if sample.name == f"celery_fair_{name}" and sample.labels == labels:
                return sample.value
    return None


def served_at(port, **more):
    """The environment of a worker that serves its metrics there."""
    return {
        "CELERY_FAIR__METRICS_PORT": str(port),
        "CELERY_FAIR__METRICS_HOST": "127.0.0.1",
        **more,
    }


# A worker of its own accord


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_a_worker_serves_what_its_tasks_did(pool, start_worker, app, journal):
    port = free_port()
    # Each task has a child of its own, forked while the endpoint is there.
    args = ["--max-tasks-per-child", "1"] if pool == "prefork" else []
    worker = start_worker(APP, pool=pool, env=served_at(port), args=args)
    for number in range(3):
        app.tasks["i.sleep"].delay(f"secret-{number}", 0.05)
        app.tasks["b.sleep"].delay(f"secret-b{number}", 0.05)
    who = {"worker": "w1@test"}

    def succeeded():
        return [
            value(port, "finished_total", kind=kind, outcome="succeeded", **who)
            for kind in ("interactive", "batch")
        ]

    wait_until(lambda: succeeded() == [3, 3], lambda: f"all in:\n{scrape(port)}", timeout=20)
    text = scrape(port)
    ids = {entry.task_id for entry in journal.entries()}
    assert len(ids) == 6
    assert "secret" not in text
    assert not any(task_id in text for task_id in ids)
    assert value(port, "unread_metrics", **who) == 0
    assert value(port, "wait_seconds_count", kind="batch", **who) == 3
    assert value(port, "task_run_seconds_count", kind="batch", task="b.sleep", **who) == 3
    assert value(port, "slot_seconds_total", kind="batch", **who) >= 0.15
    assert not [child for child in worker.children() if port in _listened_on(child)]
    if pool not in ("gevent", "eventlet"):  # they take their four seconds, with metrics or without
        assert worker.stop(timeout=30) == 0
        assert not scrape(port)


def _listened_on(process):
    try:
        connections = process.net_connections(kind="tcp")
    except psutil.NoSuchProcess:
        return []
    return [one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN]


def test_a_second_worker_of_a_host_says_whose_port_it_lacks_and_has_it_when_the_first_ends(
    start_worker, app, journal
):
    port = free_port()
    first = start_worker(APP, pool="prefork", env=served_at(port))
    wait_until(lambda: value(port, "slots", worker="w1@test"), "the first one's metrics")
    second = start_worker(APP, env=served_at(port))
    second.wait_for_log(rf"no metrics on port {port} of 127.0.0.1 \(Address already in use\)")
    assert "CELERY_FAIR__METRICS_PORT" in second.log_text()
    first.stop()
    app.tasks["i.sleep"].delay("runs")
    journal.wait_finished("runs")
    wait_until(lambda: value(port, "slots", worker="w2@test"), "the second one's", timeout=15)
    assert second.log_text().count("no metrics on port") == 1


def test_a_worker_without_the_library_says_so_and_works(start_worker, app, journal, tmp_path):
    (tmp_path / "prometheus_client.py").write_text("raise ModuleNotFoundError('not installed')\n")
    port = free_port()
    worker = start_worker(APP, env=served_at(port, PYTHONPATH=str(tmp_path)))
    worker.wait_for_log(
        rf"no metrics on port {port} \(not installed\): pip install 'celery-fair\[prometheus\]'"
    )
    app.tasks["i.sleep"].delay("runs")
    journal.wait_finished("runs")
    assert "Traceback" not in worker.log_text()


# The exporter


class Exporter(ChildProcess):
    """``celery fair exporter``, ready when it answers."""

    def __init__(self, broker, log):
        self.port = free_port()
        command = [sys.executable, "-m", "celery", "-A", APP, "fair", "exporter"]
        command += ["--port", str(self.port), "--host", "127.0.0.1"]
        env = {**broker.environ(), "PYTHONUNBUFFERED": "1"}
        super().__init__("exporter", command, log, env=env, cwd=ROOT)

    def is_ready(self):
        return "celery_fair_exporter_connected" in scrape(self.port)

    def value(self, name, **labels):
        return value(self.port, name, **labels)


@pytest.fixture
def start_exporter(request, tmp_path):
    """``start_exporter(broker)``: an exporter that answers."""
    started = []

    def start(broker):
        started.append(Exporter(broker, tmp_path / "exporter.log"))
        watch(request, started[-1])
        return started[-1].start()

    yield start
    for exporter in started:
        exporter.close()


@pytest.mark.brokers("redis", "rabbitmq")
def test_the_exporter_serves_all_workers_and_forgets_those_that_leave(
    broker, start_worker, start_exporter, app, journal
):
    # They tell their facts each second once an exporter has come.
    first, _ = start_worker(APP, concurrency=3), start_worker(APP, concurrency=2)
    exporter = start_exporter(broker)
    wait_until(lambda: exporter.value("exporter_workers") == 2, "both workers")
    app.tasks["b.sleep"].delay("b")
    journal.wait_finished("b")

    def finished():
        found = [
            exporter.value("task_finished_total", worker=worker, kind="batch", task="b.sleep",
                           outcome="succeeded")
            for worker in ("w1@test", "w2@test")
        ]  # fmt: skip
        return sum(number or 0 for number in found) == 1

    wait_until(finished, lambda: f"a task in:\n{scrape(exporter.port)}", timeout=20)
    assert exporter.value("slots", worker="w1@test") == 3
    assert exporter.value("unread_metrics", worker="w1@test") == 0
    first.stop()
    wait_until(lambda: exporter.value("exporter_workers") == 1, "one worker less")
    assert "w1@test" not in scrape(exporter.port)
    assert exporter.value("exporter_workers_lost_total") == 0
    exporter.send_signal(signal.SIGINT)
    assert exporter.wait() == 0
    assert "Traceback" not in exporter.log_text()


def test_the_exporter_outlives_its_broker_and_says_so_once(start_redis, start_exporter):
    server = start_redis()
    exporter = start_exporter(Broker("redis", server.url, server.url))
    wait_until(lambda: exporter.value("exporter_connected") == 1, "a connection")
    server.kill()
    # redis-py tries again for some seconds where a command is under way.
    wait_until(lambda: exporter.value("exporter_connected") == 0, "its loss", timeout=30)
    exporter.wait_for_log("no events, the broker can't be reached")
    server.start()
    wait_until(lambda: exporter.value("exporter_connected") == 1, "its return", timeout=20)
    exporter.wait_for_log("the broker is back")
    log = exporter.log_text()
    assert log.count("can't be reached") == 1
    assert "Traceback" not in log
    assert exporter.stop() == 0


# Prometheus itself


class Prometheus(ChildProcess):
    """Scrapes one target twice a second, with our rules."""

    def __init__(self, folder, target):
        self.port = free_port()
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: [{ROOT / 'grafana' / 'alerts.yml'}]\n"
            "scrape_configs:\n"
            "  - job_name: shop\n"
            f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
        )
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
        ]
        command += [f"--web.listen-address=127.0.0.1:{self.port}"]
        super().__init__("prometheus", command, folder / "prometheus.log")

    def is_ready(self):
        return "ready to receive web requests" in self.log_text()

    def ask(self, query):
        """The samples; an error of Prometheus's is raised."""
        address = f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': query})}"
        with HERE.open(address, timeout=5) as answer:
            return json.load(answer)["data"]["result"]


@pytest.fixture
def start_prometheus(request, tmp_path):
    """``start_prometheus(port)``: one that scrapes that port."""
    need("prometheus", shutil.which("prometheus"))
    started = []

    def start(target):
        started.append(Prometheus(tmp_path, target))
        watch(request, started[-1])
        return started[-1].start()

    yield start
    for process in started:
        process.close()


#: Where nothing is what there should be: no task was dropped, and no exporter was asked.
NOTHING = ("celery_fair_dropped_total", "celery_fair_exporter_workers_lost_total")


def test_every_panel_of_the_dashboard_has_data(start_worker, start_prometheus, app, journal):
    port = free_port()
    # Both kinds wait for three slots: the gate protects, batch is owed its share, tasks fail; and
    # of the two slots that batch may have, one waits for the one place of a resource.
    resources = {"model": {"max_running": 1, "requests_per_minute": 6e4, "tokens_per_minute": 6e4}}
    shared = {
        "CELERY_FAIR__RESOURCES": json.dumps(resources),
        "CELERY_FAIR__USES": json.dumps({"b.sleep": "model"}),
        "CELERY_FAIR__LOAD_PROBE": "tests.apps.mixed:calm",
    }
    start_worker(APP, pool="threads", concurrency=3, env=served_at(port, **shared))
    prometheus = start_prometheus(port)
    app.send_task("i.sleep", kwargs={"no_such": 1})  # fails
    app.tasks["b.sleep"].delay("first")
    first = 'celery_fair_task_finished_total{task="b.sleep", outcome="succeeded"} == 1'
    wait_until(lambda: prometheus.ask(first), "a scrape before the load, or it is no rise")
    for number in range(40):
        app.tasks["b.sleep"].delay(f"b{number}", 0.4)
        app.tasks["i.sleep"].delay(f"i{number}", 0.05)
        app.send_task("i.sleep", kwargs={"no_such": 1})
    board = json.loads((ROOT / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    queries = {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$__rate_interval", "30s")
        .replace("$worker", ".*")
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }

    def empty():
        return [
            title
            for title, query in queries.items()
            if not prometheus.ask(query) and not any(name in query for name in NOTHING)
        ]

    wait_until(lambda: not empty(), lambda: f"data of {empty()}", timeout=30, poll_seconds=0.5)
    with HERE.open(f"http://127.0.0.1:{prometheus.port}/api/v1/rules", timeout=5) as answer:
        (group,) = json.load(answer)["data"]["groups"]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
