"""``python -m example_project``: everything at once, with live data, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest

from tests.brokers.fixtures import need
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT


@pytest.fixture
def example(tmp_path):
    """The example on free ports, its output in a file."""
    log = tmp_path / "example.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "example_project", "--free-ports"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    yield process, log
    if process.poll() is None:
        process.kill()
    process.wait()


def page(log, name):
    """The address that was announced under that name."""
    return wait_until(
        lambda: (re.search(rf"^{name} +(http\S+)$", log.read_text(), re.MULTILINE) or [0, 0])[1],
        f"the address of {name}",
    )


def read(url):
    try:
        with urlopen(url, timeout=5) as reply:
            return reply.read().decode()
    except (URLError, OSError):
        return ""


def test_the_example_shows_live_data_and_leaves_nothing(example, tmp_path):
    need("redis-server", shutil.which("redis-server"))
    process, log = example
    metrics = page(log, "metrics")
    started = 'celery_fair_finished_total{kind="batch",outcome="succeeded",worker="one@example"}'

    def batch_runs():
        return re.search(rf"^{re.escape(started)} [1-9]", read(metrics), re.MULTILINE)

    wait_until(batch_runs, lambda: f"batch to run: {log.read_text()[-2000:]}", timeout=40)
    assert "Who holds the slots" in read(page(log, "Flower's Fair page"))
    if shutil.which("prometheus"):
        query = page(log, "Prometheus").replace("/alerts", "/api/v1/query?query=celery_fair_slots")
        wait_until(lambda: _values(read(query)) == {"4"}, "Prometheus to have scraped", timeout=30)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 7
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    process.wait(30)
    psutil.wait_procs(children, timeout=5)
    assert [child for child in children if child.is_running()] == []
    assert "Traceback" not in log.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["example.log"]


def _values(text):
    results = json.loads(text or "{}").get("data", {}).get("result", [])
    return {result["value"][1] for result in results}
