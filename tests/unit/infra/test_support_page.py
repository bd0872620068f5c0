"""The versions that are promised, required and run are the same ones."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from celery_fair.worker.host import NEWEST_RUN

ROOT = Path(__file__).parents[3]
ROWS = re.findall(
    r"^\| ([\w.-]+) \| ([\d.]+) \| ([\d.]+) \|$",
    (ROOT / "docs/support.md").read_text(),
    re.MULTILINE,
)
OLDEST = dict(
    re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "scripts/oldest.txt").read_text(), re.MULTILINE)
)
DISTRIBUTIONS = {"Celery": "celery", "redis-py": "redis", "py-amqp": "amqp"}


def test_the_page_has_the_oldest_versions_that_are_run():
    page = {DISTRIBUTIONS.get(name, name): oldest for name, oldest, _ in ROWS if name != "Python"}
    assert page.items() <= OLDEST.items()
    assert {"celery", "kombu", "redis", "amqp"} <= page.keys()


def test_the_oldest_versions_are_those_that_may_be_installed():
    required = dict(
        re.findall(
            r'^    "([\w-]+)>=([\d.]+)[^"]*",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
        )
    )
    for name in ("celery", "pydantic", "rich"):
        assert OLDEST[name].startswith(required[name])
        assert set(OLDEST[name].removeprefix(required[name])) <= {
            ".",
            "0",
        }  # just that, and no newer


def test_the_newest_celery_of_the_page_is_the_newest_that_is_not_warned_of():
    newest = {name: newest for name, _, newest in ROWS}
    assert tuple(map(int, newest["Celery"].split(".")[:2])) == NEWEST_RUN


def test_the_readme_names_the_same_versions():
    readme = (ROOT / "README.md").read_text()
    for name, oldest, newest in ROWS:
        if name in ("Celery", "kombu", "redis-py"):
            assert oldest in readme
            assert newest in readme


@pytest.mark.parametrize("name", ["Celery", "kombu"])
def test_what_is_run_is_on_the_page(name):
    """As far as the minor version: a new one is run, and written down, on purpose."""
    (versions,) = [row[1:] for row in ROWS if row[0] == name]
    installed = metadata.version(DISTRIBUTIONS.get(name, name))
    assert minor(installed) in map(minor, versions)


def minor(version: str) -> list[str]:
    return version.split(".")[:2]
