"""``make chaos`` in small: all dies at once, and nothing is lost, leaked, or run for nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.brokers.fixtures import need
from tests.nodes.worker import ROOT

SEED = 25
SECONDS = 300
"""For all of a run on a slow machine; its faults come within the first two minutes."""


@pytest.mark.timeout(SECONDS + 5)
def test_every_message_of_a_chaos_run_is_accounted_for(tmp_path):
    need("redis-server", shutil.which("redis-server"))
    command = [sys.executable, "-m", "tests.chaos", "--no-stock", "--seed", str(SEED)]
    command += ["--tasks", "1500", "--minutes", "2", "--output", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 lost" in done.stdout
