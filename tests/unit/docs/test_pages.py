"""The pages that explain say what the code does, and what holds it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.docs.clock import table

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def test_the_worked_example_is_what_the_policy_does():
    assert table() in (DOCS / "worked-example.md").read_text(), (
        "put in what `python -m tests.unit.docs.clock` prints"
    )


def test_each_guarantee_has_its_tests():
    page = (DOCS / "guarantees.md").read_text()
    assert re.findall(r"^\| \*\*(P\d)\*\*", page, re.MULTILINE) == ["P1", "P2", "P3", "P4", "P5"]
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert [name for name in sorted(named) if f"def {name}(" not in written] == []
