"""docs/cases.md names tests and naive variants that exist, and leaves none of the traps out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
TRAPS = [f"T{number}" for number in range(1, 18)] + [f"S{number}" for number in range(1, 25)]
REPORTED = {"A": "1457", "B": "1", "C": "135", "D": "12", "E": "13467", "F": "145", "G": "13"}
REPORTED |= {"H": "13", "I": "1", "J": "12", "K": "12", "L": "124", "M": "124", "N": "25"}
REPORTS = [f"{letter}{number}" for letter, numbers in REPORTED.items() for number in numbers]
CASE = re.compile(r"\b[A-NST]\d+\b")


def functions(*paths: Path) -> dict[str, ast.FunctionDef]:
    """The functions at the top of these files, by name."""
    return {
        node.name: node
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def cases(function: ast.FunctionDef) -> list[str]:
    """The cases that a function is for, which it says before the first colon of its docstring."""
    head, colon, _ = (ast.get_docstring(function) or "").partition(":")
    return CASE.findall(head) if colon else []


def rows() -> dict[str, str]:
    return dict(re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", PAGE, re.MULTILINE))


NAMED = set(re.findall(r"`(test_\w+)`", PAGE))
TESTS = functions(*(ROOT / "tests").rglob("test_*.py"))
DOUBLES = functions(ROOT / "tests/apps/naive.py")


def test_every_trap_and_every_report_has_one_row_in_order():
    assert re.findall(r"^\| ([A-Z]\d+) \|", PAGE, re.MULTILINE) == TRAPS + REPORTS


@pytest.mark.parametrize("number", TRAPS + REPORTS)
def test_every_row_names_a_test(number):
    assert re.search(r"`test_\w+`", rows()[number])


def test_every_test_that_is_named_exists():
    assert sorted(NAMED - TESTS.keys()) == []


@pytest.mark.parametrize("functions", [TESTS, DOUBLES], ids=["tests", "variants"])
def test_what_is_for_a_case_is_in_its_row(functions):
    missing = [
        f"{name} ({case})"
        for name, function in functions.items()
        for case in cases(function)
        if f"`{name}`" not in rows()[case]
    ]
    assert missing == []
