"""The public names are typed for those who use them, under mypy and under pyright."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TYPED = ROOT / "tests/typed"
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def team(tmp_path) -> Path:
    """A folder of a team's own, under its own settings."""
    for name in ("shop.py", "wrong.py"):
        shutil.copy(TYPED / name, tmp_path)
    config = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    return tmp_path


def test_pyright_finds_a_module_that_uses_them_clean_and_a_wrong_one_not(team):
    """`make lint` has mypy look at it, which is half a minute sooner done with all the rest."""
    pytest.importorskip("pyright", reason="it comes with the extra lint")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", "."]
    done = subprocess.run(command, cwd=team, capture_output=True, text=True)
    said = done.stdout + done.stderr
    found = re.findall(r"(\w+\.py):(\d+):\d+ - error", said)
    assert sorted(set(found)) == [("wrong.py", "5"), ("wrong.py", "6"), ("wrong.py", "7")], said
