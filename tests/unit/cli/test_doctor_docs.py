"""docs/doctor.md and the code name the same findings."""

from __future__ import annotations

import re
from pathlib import Path

from celery_fair.doctor import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()


def test_every_finding_is_in_the_table_as_it_is_in_the_code():
    rows = re.findall(r"^\| (F\d{3}) \| (\w+)[^|]* \| ([^|]+?) \|", PAGE, re.MULTILINE)
    assert rows == [(rule.id, rule.severity, rule.title) for rule in RULES]


def test_no_two_findings_share_an_id():
    assert len({rule.id for rule in RULES}) == len(RULES)
