"""docs/doctor.md and the code name the same findings."""

from __future__ import annotations

import re
from pathlib import Path

from celery_fair.doctor import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()


def test_every_finding_is_in_the_table_as_it_is_in_the_code():
    rows = re.findall(r"^\| (F\d{3}) \| (\w+)[^|]* \| ([^|]+?) \|", PAGE, re.MULTILINE)
    assert rows == [(rule.id, rule.severity, rule.title) for rule in RULES]


def test_every_finding_has_a_test():
    here = Path(__file__)
    files = [*here.parent.glob("test_doctor_*.py"), here.with_name("test_commands.py")]
    tests = "".join(file.read_text() for file in files)
    assert [rule.id for rule in RULES if f'"{rule.id}' not in tests] == []


def test_why_and_cure_are_sentences():
    for rule in RULES:
        for text in (rule.why, rule.cure):
            assert text.endswith((".", ")")), text
            assert "  " not in text, text


def test_no_two_findings_share_an_id():
    assert len({rule.id for rule in RULES}) == len(RULES)
