"""What the pages show can be typed: Python, commands, settings, plans, and data are real ones."""

from __future__ import annotations

import ast
import importlib
import json
import re
import textwrap
from pathlib import Path

import click
import pytest
import yaml
from pydantic import ValidationError

from celery_fair import Fair, FairSettings
from celery_fair.cli import fair

ROOT = Path(__file__).parents[3]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "example_project/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]
}
FENCE = re.compile(r"^( *)```(\w+)?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(*languages):
    return [
        pytest.param(textwrap.dedent(text), id=f"{name}:{page[: found.start()].count(chr(10)) + 1}")
        for name, page in PAGES.items()
        for found in FENCE.finditer(page)
        for language, text in [(found[2] or "", found[3])]
        if language in languages
    ]


@pytest.mark.parametrize("block", blocks("python"))
def test_python_imports_and_calls_what_there_is(block):
    tree = ast.parse(block.replace("…", "..."))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("celery_fair"):
            module = importlib.import_module(node.module)
            assert [one.name for one in node.names if not hasattr(module, one.name)] == []
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "fair":
            assert hasattr(Fair, node.attr), f"fair.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Fair":
            names = {one.arg for one in node.keywords if one.arg}
            assert names <= FairSettings.model_fields.keys()
            check({one.arg: one.value for one in node.keywords if one.arg})


def check(keywords):
    """The values that stand there as they are can be set; others are the reader's own."""
    given = {}
    for name, value in keywords.items():
        try:
            given[name] = ast.literal_eval(value)
        except ValueError:
            continue
    alone(given)


def alone(given):
    """Each can be set by itself: a page may show one of two that need each other."""
    try:
        FairSettings.model_validate(given)
    except ValidationError as error:
        wrong = [one for one in error.errors() if one["loc"]]
        assert not wrong, wrong


def places(pattern):
    """Where it stands, and the match, on every page."""
    return [
        (f"{name}:{page[: found.start()].count(chr(10)) + 1}", found)
        for name, page in PAGES.items()
        for found in re.finditer(pattern, page)
    ]


def test_commands_and_their_options_exist():
    """Those in a block, and those between two backquotes."""
    found = places(r"(?:celery (?:-A \S+ )?|`)fair ([a-z][^`\n#|]*)")
    assert len(found) > 100
    wrong = [(place, one[1], unknown(one[1])) for place, one in found if unknown(one[1])]
    assert wrong == []


def unknown(words):
    """The first part of a typed command that the command doesn't know."""
    parts = re.split(r"  | && ", words)[0].split()
    command: click.Command = fair
    while isinstance(command, click.Group) and parts and re.match(r"[a-z]+$", parts[0]):
        if parts[0] not in command.commands:
            return parts[0]
        command = command.commands[parts.pop(0)]
    if command.context_settings.get("ignore_unknown_options"):
        return None  # `fair flower` hands on what is Flower's
    known = {"--help", *(option for one in command.params for option in one.opts)}
    named = {part.split("=")[0].rstrip(".,;:)") for part in parts if re.match("--[a-z]", part)}
    return next(iter(sorted(named - known)), None)


def test_settings_of_the_environment_can_be_set():
    found = places(r"CELERY_FAIR__([A-Z_]+)(?:='([^']+)'|=([^\s`'\"…<]+))")
    assert len(found) > 5
    for place, one in found:
        name, value = one[1].lower(), one[2] or one[3]
        assert name in FairSettings.model_fields, place
        try:
            alone({name: json.loads(value)})
        except ValueError:
            alone({name: value})


@pytest.mark.parametrize("block", blocks("yaml"))
def test_yaml_can_be_read(block):
    assert [one for one in yaml.safe_load_all(block)]


@pytest.mark.parametrize("block", blocks("json"))
def test_json_can_be_read(block):
    for line in block.strip().splitlines() if block.count("\n{") else [block]:
        json.loads(line)
