"""What is built is all that a user needs, and nothing else; `make release-check` installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "celery_fair"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_has_every_file_of_the_package_and_no_other(wheel):
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == files
    assert {"celery_fair/py.typed", "celery_fair/integrations/flower/templates/fair.html"} < found
    assert "celery_fair/integrations/flower/static/live.js" in found


def test_its_metadata_says_what_it_is(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    base = [one for one in metadata.get_all("Requires-Dist") if "extra ==" not in one]
    assert sorted(re.match(r"[\w-]+", one).group() for one in base) == [
        "celery",
        "pydantic",
        "rich",
    ]


def test_each_extra_for_users_is_tried_alone_before_a_release(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    extras = set(message_from_bytes(wheel.read(name)).get_all("Provides-Extra"))
    script = (ROOT / "scripts/release-check").read_text()
    tried = re.findall(r"^(\w+) [\w.,]+$", script.split("<<'EXTRAS'\n")[1], re.MULTILINE)
    assert extras - set(tried) == {"docs", "example", "grafana", "lint", "soak", "test"}


def test_its_entry_points_are_celerys_and_cost_pytest_nothing(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert re.findall(r"^\[(.+)\]$", wheel.read(name).decode(), re.MULTILINE) == ["celery.commands"]


def test_the_changelog_begins_with_this_version():
    version = re.search(r'__version__ = "(.+)"', (PACKAGE / "__init__.py").read_text()).group(1)
    heads = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] in (version, "Unreleased")
    assert version in heads
