"""``python -m celery_fair demo``: real workers, figures that hold, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest

from tests.brokers.fixtures import need
from tests.brokers.waiting import wait_until

MARK = "DEMO_TEST"
SECONDS = "3"


class Demo:
    """One run of the demo in its own process; everything it starts inherits a mark."""

    def __init__(self, tmp_path, *arguments, path=None):
        self.mark = uuid.uuid4().hex
        self.seen: set[psutil.Process] = set()
        self.folder = tmp_path / "tmp"
        self.folder.mkdir()
        self.json = tmp_path / "figures.json"
        command = [sys.executable, "-m", "celery_fair", "demo", "--json", str(self.json)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            # A shell that is set up for another app must not redirect the demo's.
            env={
                **os.environ,
                MARK: self.mark,
                "TMPDIR": str(self.folder),
                "PATH": path or os.environ["PATH"],
                "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
                "CELERY_FAIR__ENABLED": "false",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell ignores SIGINT for what it runs in the background, and so would the demo.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def finish(self, timeout=75) -> tuple[str, str]:
        return self.process.communicate(timeout=timeout)

    def processes(self) -> list[psutil.Process]:
        """All live processes that carry the mark, and what was seen below the demo."""
        marked = {
            process
            for process in psutil.process_iter(["environ"])
            if (process.info["environ"] or {}).get(MARK) == self.mark
        }
        # redis-server writes its title over its environment, so it is known by its parent.
        with contextlib.suppress(psutil.NoSuchProcess):
            self.seen |= set(psutil.Process(self.process.pid).children(recursive=True))
        return [process for process in marked | self.seen if _is_alive(process)]

    def is_under_load(self, side: str) -> bool:
        """Whether the worker of that side has started a task."""
        journals = self.folder.glob(f"*/celery_fair.demo.{side}.jsonl")
        return any('"started"' in journal.read_text() for journal in journals)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def start_demo(tmp_path) -> Iterator:
    demos = []

    def start(*arguments, **options) -> Demo:
        demos.append(Demo(tmp_path, *arguments, **options))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.finish()
        wait_until(lambda demo=demo: not demo.processes(), "the demo's processes to end")


def assert_figures(demo: Demo) -> dict:
    out, err = demo.finish()
    assert demo.process.returncode == 0, err
    figures = json.loads(demo.json.read_text())
    assert f"Took {figures['took_seconds']:.0f} s on {figures['broker']}" in out.replace("\n", " ")
    fair, plain = figures["fair"]["interactive"], figures["plain"]["interactive"]
    assert fair["sent"] == plain["sent"] == fair["started"]
    # The flood is six seconds long; celery-fair's worker has a slot free.
    assert plain["wait_seconds"]["p95"] > 2.0
    assert fair["wait_seconds"]["p95"] < plain["wait_seconds"]["p95"] / 4
    assert figures["fair"]["batch"]["done"] >= 1
    return figures


def test_the_demo_measures_both_sides_and_leaves_nothing(start_demo):
    need("redis-server", shutil.which("redis-server"))
    demo = start_demo("--seconds", SECONDS)
    figures = assert_figures(demo)
    assert figures["broker"].startswith("redis-server ")
    assert demo.processes() == []
    assert list(demo.folder.iterdir()) == []


def test_without_a_redis_server_the_demo_runs_on_the_stand_in(start_demo, tmp_path):
    demo = start_demo("--seconds", SECONDS, path=str(tmp_path))
    assert assert_figures(demo)["broker"] == "fakeredis, a stand-in for Redis"
    assert demo.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_under_load_the_demo_cleans_up(start_demo, number):
    need("redis-server", shutil.which("redis-server"))
    demo = start_demo()
    wait_until(lambda: demo.is_under_load("plain"), "a task to start", timeout=60)
    # The demo itself, redis-server, the worker and its four processes.
    wait_until(lambda: len(demo.processes()) == 7, lambda: f"seven, not {demo.processes()}")
    demo.process.send_signal(number)
    _, err = demo.finish(timeout=60)
    assert demo.process.returncode == 130
    assert "Interrupted; the demo's processes are stopped." in err
    assert demo.processes() == []
    assert list(demo.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_even_a_killed_demo_leaves_no_process(start_demo):
    need("redis-server", shutil.which("redis-server"))
    demo = start_demo()
    wait_until(lambda: demo.is_under_load("plain"), "a task to start", timeout=60)
    wait_until(lambda: len(demo.processes()) == 7, lambda: f"seven, not {demo.processes()}")
    demo.process.kill()
    demo.finish(timeout=10)
    wait_until(lambda: not demo.processes(), "the processes to end")
