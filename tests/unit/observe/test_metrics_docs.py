"""docs/metrics.md has the table of the code, and every value that a label may have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from celery_fair.cli.exporter import PORT
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.observe.metrics import table
from celery_fair.observe.reading import OTHER
from celery_fair.policy.gate import CAUSES
from celery_fair.policy.idle import Idle

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_table_of_the_page_is_the_one_of_the_code():
    assert table() in PAGE, "put in what `python -m celery_fair.observe.metrics` prints"


def test_the_command_that_the_page_names_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "celery_fair.observe.metrics"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == (table(), "")


def test_values_of_labels_are_explained():
    values = PAGE.split("The values of labels are bounded")[1].split("## How to ask")[0]
    words = set(values.replace(",", " ").replace(";", " ").replace(".", " ").split())
    causes = {cause.value for causes in CAUSES.values() for cause in causes}
    expected = {*OUTCOMES, *DROPS, *causes, *(reason.value for reason in Idle), f"`{OTHER}`"}
    assert expected - words == set()


def test_the_exporters_port_is_the_one_of_the_page():
    assert f"exporter --port {PORT}" in PAGE
