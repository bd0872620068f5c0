"""docs/diagnosis.md names what there is: stages, commands, findings, and places in itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from celery_fair.cli import fair
from celery_fair.doctor import RULES
from tests.diagnosis.__main__ import written
from tests.diagnosis.stages import STAGES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
PAGES = {"diagnosis": PAGE, "README": (ROOT / "README.md").read_text(encoding="utf-8")}


def test_each_output_is_of_a_stage_that_can_be_staged_again():
    found = re.findall(r"<!-- stage: (\S+) -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert {name for name, _ in found} == set(STAGES)
    assert len(found) == len(STAGES)
    assert all(len(said) > 80 for _, said in found), (
        "an output is missing: python -m tests.diagnosis"
    )


@pytest.mark.parametrize("name", sorted(STAGES))
def test_an_output_shows_what_was_typed(name):
    said = PAGE.split(f"<!-- stage: {name} -->")[1].split("```")[1]
    typed = re.findall(r"^\$ celery -A shop (.*)$", said, re.MULTILINE)
    commands = [command.partition(" {")[0] for command in STAGES[name].commands]
    assert [one[: len(command)] for one, command in zip(typed, commands, strict=True)] == commands


@pytest.mark.parametrize("page", sorted(PAGES))
def test_each_command_that_is_named_exists(page):
    named = set(re.findall(r"(?:`|celery -A shop )fair ([a-z]+)\b", PAGES[page]))
    assert named
    assert named <= fair.commands.keys()


def test_each_finding_that_is_named_can_be_found():
    known = {rule.id for rule in RULES}
    assert set(re.findall(r"\bF\d{3}\b", PAGE)) <= known


def test_each_place_that_is_linked_to_is_there():
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    places = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#(\S+)\)", PAGE)) <= places
    for file in re.findall(r"\]\((\w[\w-]*\.md)\)", PAGE):
        assert (ROOT / "docs" / file).exists(), file


def test_an_output_is_put_behind_its_own_mark_and_nowhere_else():
    page = "a\n<!-- stage: x -->\n```text\n```\n<!-- stage: y -->\n```text\nold\n```\n"
    assert written(page, "x", "new") == page.replace("text\n```\n<", "text\nnew\n```\n<", 1)
    with pytest.raises(AssertionError, match="0 times"):
        written(page, "z", "new")
