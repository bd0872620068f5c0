"""The pages that explain say what the code does, and what holds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from celery_fair.headers import NAME, FairHeader
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


def test_each_field_of_the_header_is_explained():
    page = (DOCS / "reference-messages.md").read_text()
    named = re.findall(r"^\| (`.*?) \|", page.split("## Events")[0], re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(named)) == list(FairHeader._fields)
    lines = re.findall(r"^(?:batch|interactive) \d.*", page, re.MULTILINE)
    assert [FairHeader.read({NAME: line}).as_line() for line in lines] == lines


TRY = """
import flask_shop, shop
client = flask_shop.app.test_client()
assert client.post("/answers", data="hi").status_code == 202
assert len(client.post("/summaries").json["ids"]) == 3
with shop.app.connection_for_write() as connection:
    sizes = [connection.default_channel._size(name) for name in ("celery", "celery.batch")]
assert sizes == [1, 3], sizes
"""


def test_the_flask_shop_publishes_each_kind_to_its_queue(tmp_path):
    page = (DOCS / "guide-frameworks.md").read_text()
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(
            code.replace("redis://localhost/0", "memory://").replace(
                "redis://localhost/1", "cache+memory://"
            )
        )
    (tmp_path / "try.py").write_text(TRY)
    done = subprocess.run(
        [sys.executable, "try.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
