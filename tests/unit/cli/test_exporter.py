"""``celery fair exporter``: what keeps it from starting is one sentence, and what it has heard."""

from __future__ import annotations

import builtins
import logging
import socket
import sys
from types import SimpleNamespace

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.observe.cluster import Cluster
from tests.unit.observe.workers import facts, task

MODULE = sys.modules["celery_fair.cli.exporter"]  # of the package's names it is the command


@pytest.fixture
def exporter(make_app, monkeypatch):
    """``exporter("--port", "1")``: run the command; its result, and what its error says."""
    app = make_app()
    monkeypatch.setattr(MODULE, "Ended", lambda: True)
    monkeypatch.setattr(app.log, "setup_logging_subsystem", lambda **_: None)

    def run(*arguments):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["exporter", *arguments], obj=context)

    return run


def test_a_port_that_is_taken_is_named_with_the_cure(exporter):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = exporter("--port", str(port), "--host", "127.0.0.1")
    assert result.exit_code == 69
    assert f"Port {port} of 127.0.0.1 can't be had (Address already in use)" in result.output
    assert "--port and --host take others" in result.output


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_is_named(exporter, host):
    result = exporter("--host", host)
    assert result.exit_code == 69
    assert f"of {host} can't be had" in result.output


def test_without_the_library_the_cure_is_said(exporter, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError("No module named 'prometheus_client'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    result = exporter()
    assert result.exit_code == 69
    assert "pip install 'celery-fair[prometheus]'" in result.output


def test_a_transport_without_events_is_named_with_the_cure(exporter, monkeypatch):
    monkeypatch.setattr("kombu.Connection.supports_exchange_type", lambda *_: False)
    result = exporter()
    assert result.exit_code == 69
    assert "memory://" in result.output
    assert "give each worker a metrics_port" in result.output


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_what_is_no_port_is_refused(exporter, port):
    assert exporter("--port", port).exit_code == 2


# What it has heard


@pytest.fixture
def listener():
    return SimpleNamespace(error=None, is_connected=True)


@pytest.fixture
def cluster(monkeypatch):
    """Heard of two workers at 100, on a clock that a test sets by ``cluster.now``."""
    cluster = Cluster()
    cluster.now = 100.0
    monkeypatch.setattr(MODULE, "monotonic", lambda: cluster.now)
    monkeypatch.setattr(MODULE.time, "time", lambda: cluster.now + 1e9)
    for name in ("w1", "w2"):
        cluster.hear(
            {"type": "worker-fair", "hostname": name, "fair_facts": facts(), "fair_every": 1.0,
             "fair_tasks": [task("t", succeeded=2)]}, 100.0,
        )  # fmt: skip
    return cluster


def test_facts_and_tasks_of_all_who_are_alive(listener, cluster):
    heard = MODULE.Heard(listener, cluster)
    sources = heard.sources()
    assert list(sources) == ["w1", "w2"]
    assert sources["w1"].facts["slots"]["total"] == 8
    assert [one["task"] for one in sources["w1"].tasks] == ["t"]
    assert heard.reach().last_seen == {"w1": 100.0 + 1e9, "w2": 100.0 + 1e9}


def test_those_who_fell_silent_are_gone_and_counted(listener, cluster):
    heard = MODULE.Heard(listener, cluster)
    cluster.hear({"type": "worker-offline", "hostname": "w2"}, 100.0)
    cluster.hear({"type": "worker-fair", "hostname": "w1", "fair_facts": None}, 101.0)
    cluster.now = 109.0
    assert heard.sources() == {}
    reach = heard.reach()
    assert (reach.lost, reach.unreadable, dict(reach.last_seen)) == (1, 1, {})


def test_a_broker_that_is_back_is_said_once(listener, cluster, caplog):
    caplog.set_level(logging.INFO)
    heard = MODULE.Heard(listener, cluster)
    heard.look()
    listener.error = OSError("gone")
    heard.look()
    assert not caplog.records
    listener.error = None
    heard.look()
    heard.look()
    assert [record.getMessage() for record in caplog.records] == ["celery-fair: the broker is back"]
