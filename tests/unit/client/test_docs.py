"""The settings page says what the code does."""

from __future__ import annotations

import json
from pathlib import Path

from celery_fair import FairSettings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def rows(first_header: str) -> list[list[str]]:
    """Return the cells of the table whose first column has that header."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {first_header} |"):
            break
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_settings_table_is_the_model() -> None:
    documented = {
        name.strip("`"): (json.loads(default.strip("`")), expected)
        for name, default, expected in rows("name")
    }
    assert documented == {
        name: (field.default, field.description)
        for name, field in FairSettings.model_fields.items()
    }


def test_every_setting_is_explained() -> None:
    explained = PAGE.read_text(encoding="utf-8").split("What they do:")[1].split("\n## ")[0]
    assert [
        n for n in FairSettings.model_fields if n != "enabled" and f"`{n}`" not in explained
    ] == []
