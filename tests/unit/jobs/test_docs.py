"""The page on jobs says what the code does."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from celery_fair import Fair, Progress
from celery_fair.cli import fair
from celery_fair.integrations import jobs, jobs_options, jobs_words
from celery_fair.jobs.progress import ENDED, PAUSED, RUNNING

PAGE = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The cells of the table whose first header is this one."""
    rows = PAGE.split(f"\n| {header}", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_each_option_stands_there_with_its_default():
    written = {
        name: default.strip()
        for cell, defaults, _ in table("`submit_job(task, items, …)`")
        for name, default in zip(names(cell), defaults.split(","), strict=False)
    }
    written["ahead"] = "10,000"  # a comma of its own
    parameters = inspect.signature(Fair.submit_job).parameters.values()
    options = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert written.keys() == options.keys()
    for name, default in options.items():
        said = {None: {"none", "a random UUID", "known of a list"}, False: {"false"}}
        known = said.get(default, {f"{default:,}" if isinstance(default, int) else str(default)})
        if name == "keep_seconds":
            known = {"a week"}
        assert written[name].removesuffix(".0") in {one.removesuffix(".0") for one in known}, name


def test_each_field_of_the_progress_is_explained():
    written = [name for cell, _ in table("field |") for name in names(cell)]
    assert sorted(written) == sorted(field.name for field in fields(Progress))
    states = next(text for cell, text in table("field |") if cell == "`state`")
    assert set(re.findall(r"`([\w ]+)`", states)) == ENDED | {RUNNING, PAUSED}


def test_each_command_stands_there():
    written = [name for cell, _, _ in table("command |") for name in re.findall(r"`(\w+)", cell)]
    assert sorted(written) == sorted(fair.commands["job"].commands)


def test_the_bounds_of_a_request_are_those_of_the_code():
    assert f"`max_items` ({jobs.MAX_ITEMS:,})" in PAGE
    assert f"`max_bytes` ({jobs.MAX_BYTES:,})" in PAGE
    said = PAGE.split("A client may send `id` too")[1].split("\n- ")[0]
    assert set(jobs_words.OPTIONS) <= set(names(said))
    actions = PAGE.split("| `POST /jobs/<id>/pause`")[1].split("|")[0]
    assert {"pause", *names(actions)} == set(jobs_options.ACTIONS)


@pytest.mark.parametrize(("slots", "column"), [(1, 1), (4, 2), (8, 3)])
def test_the_waits_are_those_that_its_formula_gives(slots, column):
    units = {"ms": 0.001, "s": 1.0, "min": 60.0}

    def seconds(cell):
        number, unit = cell.split()
        return float(number) * units[unit]

    for row in table("one part takes"):
        wait = seconds(row[0]) * (1 - 0.05 ** (1 / slots))
        assert seconds(row[column]) == pytest.approx(wait, rel=0.06), row


def test_its_blocks_of_python_are_python():
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        compile(block, "docs/jobs.md", "exec")
