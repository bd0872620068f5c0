"""The suite tidies up: a session that leaves a process behind fails and says so."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

LEAKS = """
import subprocess
def test_leaks():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print("pid", child.pid)
"""
LEAKS_A_WORKER = """
import sys
from tests.nodes.worker import QUIET_FLAGS, ROOT, CeleryProcess
def test_leaks(tmp_path):
    command = [sys.executable, "-m", "celery", "-b", "memory://", "worker", "-P", "solo"]
    command += ["-l", "INFO", *QUIET_FLAGS]
    worker = CeleryProcess("worker", command, tmp_path / "log", cwd=ROOT)
    worker.start()
    assert CeleryProcess.nursery.pid
    print("pid", worker.pid)
"""
TIDY = """
import subprocess
def test_is_tidy():
    subprocess.Popen(["sleep", "60"]).kill()
"""


def run_pytest(folder, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_inner.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-s", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", folder, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/*/environ")
@pytest.mark.parametrize("source", [LEAKS, LEAKS_A_WORKER], ids=["process", "worker"])
def test_a_process_left_behind_fails_the_session_and_is_killed(tmp_path, source):
    done = run_pytest(tmp_path, source)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "Processes were left behind (now killed): [psutil.Process(pid=" in done.stdout
    pid = int(done.stdout.split("pid ")[1].split()[0])
    wait_until(lambda: _is_gone(pid), "its end")


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_tidy_session_passes(tmp_path):
    assert run_pytest(tmp_path, TIDY).returncode == pytest.ExitCode.OK
