"""The site can be built of the pages without a warning, and asks no other host for anything.

A link to a page or a heading that isn't there is a warning, and so is a page that docs/index.md
doesn't list.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from celery_fair import __all__ as public
from celery_fair.cli import fair

ROOT = Path(__file__).parents[3]
BUILD = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "."]
FETCHED = r"""<(?:script|img|iframe|link rel="(?:stylesheet|preload|icon)")[^>]*"(?:https?:)?//"""

pytestmark = pytest.mark.timeout(300)  # twelve seconds of a core, on a machine that does more


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run([*BUILD, str(target)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_it_is_built_without_a_warning_and_holds_what_the_code_names(site):
    commands = (site / "docs/reference-cli.html").read_text()
    assert [name for name in fair.commands if f'id="fair-{name}"' not in commands] == []
    names = (site / "docs/reference-api.html").read_text()
    written = set(re.findall(r'id="celery_fair\.(\w+)"', names))
    assert {name for name in public if name[0].isupper() and not name.isupper()} <= written | {
        "Kind"
    }
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if re.search(FETCHED, page.read_text())] == []
    assert "@import" not in (site / "_static/site.css").read_text()
    assert "docs/index.html" in (site / "index.html").read_text()
