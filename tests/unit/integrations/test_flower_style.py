"""Contrast of the page's colours (WCAG 2.1 AA), read from its style sheet, and its navigation."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import celery_fair

FOLDER = Path(celery_fair.__file__).parent / "integrations" / "flower"
CSS = (FOLDER / "static" / "fair.css").read_text(encoding="utf-8")

TEXT, GRAPHIC = 4.5, 3.0

PAIRS = [
    *((name, on, TEXT) for name in ("text", "muted", "link") for on in ("surface", "subtle")),
    *((name, "surface", TEXT) for name in ("open", "protected", "bad")),
    ("open", "open-back", TEXT),
    ("protected", "protected-back", TEXT),
    ("bad", "bad-back", TEXT),
    ("text", "protected-back", TEXT),
    *((name, "surface", GRAPHIC) for name in ("interactive", "batch", "edge", "focus")),
    *((name, "subtle", GRAPHIC) for name in ("interactive", "batch", "edge", "focus")),
    ("batch-stripe", "batch", GRAPHIC),
]  # fmt: skip


def colours(selector: str) -> dict[str, str]:
    block = re.search(re.escape(selector) + r"\s*\{(.*?)\}", CSS, re.DOTALL)
    assert block, selector
    return dict(re.findall(r"--fair-([\w-]+):\s*(#[0-9a-f]{6});", block[1]))


LIGHT = colours("\n.fair")
DARK = colours('[data-bs-theme="dark"] .fair')


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_what_the_standard_says_it_is():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("name", "ground", "least"), PAIRS)
def test_colours_can_be_told_apart(theme, name, ground, least):
    assert contrast(theme[name], theme[ground]) >= least


def test_each_colour_is_there_in_light_and_dark():
    assert LIGHT.keys() == DARK.keys()


def test_no_colour_is_written_past_the_two_themes():
    rest = CSS[CSS.index("  padding:") :]  # of the first block after the themes
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(", rest)


def test_every_variable_used_is_defined():
    assert set(re.findall(r"var\(--fair-([\w-]+)\)", CSS)) <= LIGHT.keys()


def test_nothing_moves_where_less_motion_is_wanted():
    assert "animation" in CSS
    assert "prefers-reduced-motion: reduce" in CSS
    assert "transition" not in CSS


SCRIPTS = sorted((FOLDER / "static").glob("*.js"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_html_of_text_or_asks_anyone_else(script):
    text = script.read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in text
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_template_escapes_everything_and_asks_nobody_else():
    text = (FOLDER / "templates" / "fair.html").read_text(encoding="utf-8")
    assert "{% raw" not in text
    assert "autoescape" not in text
    assert "//" not in text


def test_our_item_stands_after_broker_in_flowers_own_navigation():
    loader = pytest.importorskip("celery_fair.integrations.flower.loader")
    spec = importlib.util.find_spec("flower")
    assert spec is not None
    navbar = (Path(spec.origin).parent / "templates" / "navbar.html").read_text(encoding="utf-8")
    made = loader.with_item(navbar)
    targets = re.findall(r"reverse_url\('(\w+)'\)", made)
    assert targets.index("fair") == targets.index("broker") + 1
    assert made.count("active_tab == 'fair'") == made.count("active_tab == 'broker'")
    assert made.count("<li") == navbar.count("<li") + 1


def test_another_navigation_is_left_as_it_is(caplog):
    loader = pytest.importorskip("celery_fair.integrations.flower.loader")
    assert loader.with_item("<nav></nav>") == "<nav></nav>"
    assert "its page is at /fair" in caplog.text
