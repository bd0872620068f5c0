"""What ``--help`` has of every command that there is, and of those to come."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.cli.examples import EXAMPLES
from celery_fair.cli.group import OTHERS, SECTIONS

COMMANDS = sorted(fair.commands)
#: Those of a group too: "job list".
ALL = COMMANDS + [
    f"{name} {inner}"
    for name, command in fair.commands.items()
    for inner in sorted(getattr(command, "commands", ()))
]


def help_of(*command: str) -> str:
    result = CliRunner().invoke(fair, [*command, "--help"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", ALL)
def test_each_command_has_an_example_in_its_help(command):
    """It stands in celery_fair/cli/examples.py: what one types, and what came of it."""
    assert command in EXAMPLES, f"no example of `fair {command}` in celery_fair/cli/examples.py"
    lines = EXAMPLES[command].splitlines()
    assert re.match(rf"\$ celery -A \w+ fair {command}\b", lines[0])
    assert len(lines) > 1, "an example shows what came"
    assert "Example:" in help_of(*command.split())
    for line in filter(None, lines):
        assert f"    {line}" in help_of(*command.split()), "shown as it came, and not filled anew"


@pytest.mark.parametrize("command", ALL)
def test_each_command_tells_its_exit_codes(command):
    assert re.search(r"Exit\s+code", help_of(*command.split()))


@pytest.mark.parametrize("command", ALL)
def test_the_help_of_a_command_fits_into_80_columns(command):
    assert max(map(len, help_of(*command.split()).splitlines())) <= 80


def test_the_overview_has_each_command_once_under_a_heading_with_a_whole_sentence():
    overview = help_of()
    for command in COMMANDS:
        (line,) = re.findall(rf"^  {command}  .*", overview, re.MULTILINE)
        assert line.endswith(".")
        assert not line.endswith("..."), "the first sentence of its docstring is too long for it"
    assert f"{OTHERS}:" not in overview, "a command stands in no section of cli/group.py"


def test_no_example_and_no_section_has_a_command_twice():
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len(set(named))


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    result = CliRunner().invoke(fair, ["statsu"])
    assert result.exit_code == 2
    assert "status" in result.output
