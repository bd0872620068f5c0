"""The page on web requests says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from celery_fair.integrations import RequestRules, words
from celery_fair.integrations.rules import SAID
from tests.unit.client.djangos import configured

configured()

from celery_fair.integrations.django import OPTIONS  # noqa: E402 - it needs the settings

PAGE = (Path(__file__).parents[3] / "docs" / "web.md").read_text(encoding="utf-8")


def test_every_option_is_explained_with_its_name_in_django() -> None:
    documented = dict(re.findall(r"^\| `(\w+)` \| `(FAIR_\w+)` \|", PAGE, re.MULTILINE))
    keywords = list(inspect.signature(RequestRules).parameters)
    assert documented == {name: f"FAIR_{name.upper()}" for name in keywords}
    assert set(OPTIONS) == set(keywords)


def test_the_names_that_headers_have_by_default_are_said() -> None:
    parameters = inspect.signature(RequestRules).parameters
    for name in ("header", "tenant_header", "request_id_header"):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` "))
        assert f"`{parameters[name].default}`" in row
    row = next(line for line in PAGE.splitlines() if line.startswith("| `trust_header` "))
    assert all(f'`"{said}"`' in row for said in SAID)


def test_the_bound_is_the_one_in_the_code() -> None:
    assert set(re.findall(r"(\d+) characters", PAGE)) == {str(words.MAX_TEXT)}


def test_its_blocks_of_python_are_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        compile(block, "docs/web.md", "exec")
