"""``make chaos`` in small: all dies at once, and nothing is lost, leaked, or run for nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.brokers.fixtures import need
from tests.nodes.worker import ROOT

SEED = 25
SECONDS = 175
"""For all of a run; its faults come within the first two minutes."""


def chaos(folder, *arguments: object) -> subprocess.CompletedProcess:
    """A run on Redis with prefork, which is where most can die."""
    need("redis-server", shutil.which("redis-server"))
    command = [sys.executable, "-m", "tests.chaos", "--seed", SEED, "--tasks", 1500]
    command += ["--minutes", 2, "--output", folder, "--no-stock", *arguments]
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )


@pytest.mark.timeout(SECONDS + 5)
def test_every_message_of_a_chaos_run_is_accounted_for(tmp_path):
    done = chaos(tmp_path / "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 lost" in done.stdout


@pytest.mark.timeout(SECONDS + 5)
def test_a_chaos_run_sees_what_is_lost(tmp_path, full):
    if not full:
        pytest.skip("the account has its own tests, in tests/unit/chaos")
    done = chaos(tmp_path / "run", "--naive", "forget_the_unnoted")
    assert done.returncode == 1, done.stdout + done.stderr
