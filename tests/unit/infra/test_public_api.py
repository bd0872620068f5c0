"""What is public changes on purpose: by the rules of CONTRIBUTING.md, and never by accident."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from tests.unit.infra.public_api import LISTING, MODULES, NOT_YET, listing

ROOT = Path(__file__).parents[3]


def test_what_is_public_is_what_was_written_down():
    written, now = LISTING.read_text().splitlines(), listing().splitlines()
    changes = "\n".join(
        difflib.unified_diff(written, now, "public_api.txt", "the code", lineterm="")
    )
    assert not changes, (
        f"what is public has changed; if that is meant, say it in CHANGELOG.md, mind the version "
        f"policy of CONTRIBUTING.md, and run python -m tests.unit.infra.public_api\n{changes}"
    )


def test_the_docs_import_from_nowhere_else():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for module in re.findall(
            r"^from (celery_fair[\w.]*) import", page.read_text(), re.MULTILINE
        ):
            assert module in MODULES or module.startswith(NOT_YET), (
                f"{page.name} imports from {module}"
            )
