"""docs/explain.md has each place and each reason that there is, and no other."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from celery_fair.cli.explain_words import SHORT
from celery_fair.observe.place import Place
from celery_fair.policy.waiting import Reason

TEXT = (Path(__file__).parents[3] / "docs" / "explain.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("heading", "words"), [("Places", Place), ("Reasons", Reason)])
def test_each_word_has_its_row(heading: str, words: type[Enum]):
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [one.value for one in words]


def test_each_reason_has_words():
    assert set(SHORT) == set(Reason)
