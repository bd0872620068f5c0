"""What a command writes to: a terminal, a pipe, one without colours, a narrow one."""

from __future__ import annotations

import sys

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from tests.unit.cli.replies import report

COLOUR = "\x1b[32m"
ESCAPE = "\x1b["
SIGNS = ("COLUMNS", "TERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM")


@pytest.fixture
def shown(make_app, monkeypatch):
    """``shown("status", COLUMNS="40")``: what a command writes in such an environment."""
    for module in ("status", "top"):
        command = sys.modules[f"celery_fair.cli.{module}"]
        monkeypatch.setattr(command, "ask", lambda *_, **__: {"w1@host": report()})
    for name in SIGNS:
        monkeypatch.delenv(name, raising=False)

    def shown(*arguments, no_color=False, charset="utf-8", **env):
        for name, value in {"TERM": "xterm", **env}.items():
            monkeypatch.setenv(name, value)
        context = CLIContext(app=make_app(), no_color=no_color, workdir=None)
        result = CliRunner(charset=charset).invoke(fair, arguments, obj=context, color=True)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    return shown


VIEWS = [("status",), ("top", "--once")]


@pytest.mark.parametrize("view", VIEWS)
def test_a_pipe_gets_no_colours(shown, view):
    assert ESCAPE not in shown(*view)


@pytest.mark.parametrize("view", VIEWS)
def test_a_pipe_gets_them_where_they_are_forced(shown, view):
    assert COLOUR in shown(*view, FORCE_COLOR="1").replace("\x1b[1;32m", COLOUR)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("off", [{"NO_COLOR": "1"}, {"no_color": True}])
def test_a_wish_for_none_beats_that(shown, view, off):
    said = shown(*view, FORCE_COLOR="1", **off)
    assert "32m" not in said
    assert "36m" not in said


@pytest.mark.parametrize("view", VIEWS)
def test_a_dumb_terminal_gets_plain_lines(shown, view):
    assert ESCAPE not in shown(*view, TERM="dumb", FORCE_COLOR="1")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("columns", [46, 66, 80, 200])
def test_no_line_is_longer_than_the_terminal_is_wide(shown, view, columns):
    said = shown(*view, COLUMNS=str(columns))
    assert max(map(len, said.splitlines())) <= columns
    assert "interactive" in said
    assert "batch" in said


def test_what_is_copied_from_a_terminal_has_no_blanks_at_the_ends(shown):
    said = shown("status", COLUMNS="46")
    assert [line for line in said.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("view", VIEWS)
def test_an_output_in_ascii_gets_ascii(shown, view):
    assert shown(*view, charset="ascii").isascii()
    assert not shown(*view).isascii(), "there is something to write otherwise"


@pytest.mark.parametrize("columns", [46, 80])
def test_nor_has_what_the_doctor_says(shown, columns):
    said = shown("doctor", "F001", "F103", COLUMNS=str(columns)).splitlines()
    assert [line for line in said if line != line.rstrip() or len(line) > columns] == []
