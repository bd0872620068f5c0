"""The suite tidies up: a session that leaves a process behind fails and says so."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from tests.nodes.worker import ROOT

LEAKS = """
import subprocess
def test_leaks():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print("pid", child.pid)
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
def test_a_process_left_behind_fails_the_session_and_is_killed(tmp_path):
    done = run_pytest(tmp_path, LEAKS)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "Processes were left behind (now killed): [psutil.Process(pid=" in done.stdout
    pid = int(done.stdout.split("pid ")[1].split()[0])
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_tidy_session_passes(tmp_path):
    assert run_pytest(tmp_path, TIDY).returncode == pytest.ExitCode.OK
