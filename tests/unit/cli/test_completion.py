"""Completion in a shell, as Celery's own: from what is typed alone, without an app or a broker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from celery.bin.celery import celery
from click.shell_completion import ShellComplete

from celery_fair.cli import fair
from celery_fair.policy.kinds import KINDS
from celery_fair.settings import FairSettings


@pytest.fixture
def complete(monkeypatch):
    """``complete("fair", "st")``: what a shell offers for the last word of ``celery -A shop …``."""

    def refused(*_):
        raise AssertionError("a completion asks nobody")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setitem(celery.commands, "fair", fair)

    def complete(*words):
        *typed, last = words
        shell = ShellComplete(celery, {}, "celery", "_CELERY_COMPLETE")
        return {one.value for one in shell.get_completions(["-A", "nosuchapp", *typed], last)}

    return complete


def takes(name: str) -> list[str]:
    """The commands that have a parameter of this name."""
    return sorted(
        command.name for command in fair.commands.values()
        if any(parameter.name == name for parameter in command.params)
    )  # fmt: skip


def test_commands_are_offered(complete):
    assert complete("fair", "") >= fair.commands.keys()
    assert complete("fair", "st") == {"status"}


@pytest.mark.parametrize("command", sorted(fair.commands))
def test_the_options_of_each_command_are_offered(complete, command):
    options = {
        name
        for parameter in fair.commands[command].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in parameter.opts
        if name.startswith("--")
    }
    assert complete("fair", command, "--") >= options


@pytest.mark.parametrize("command", takes("kind"))
def test_kinds_are_offered(complete, command):
    (parameter,) = (one for one in fair.commands[command].params if one.name == "kind")
    typed = () if isinstance(parameter, click.Argument) else (parameter.opts[-1],)
    assert complete("fair", command, *typed, "") >= set(KINDS)


@pytest.mark.skipif("set" not in fair.commands, reason="there is no `fair set`")
def test_names_of_settings_are_offered(complete):
    offered = {one.partition("=")[0] for one in complete("fair", "set", "")}
    assert offered
    assert offered <= FairSettings.model_fields.keys()
    assert "batch_share" in {one.partition("=")[0] for one in complete("fair", "set", "batch_s")}


def test_a_shell_gets_the_words_of_a_line():
    """The whole of it, as bash asks for it; a package that prints on import would spoil it."""
    line = {"COMP_WORDS": "celery -A nosuchapp fair sta", "COMP_CWORD": "4"}
    done = subprocess.run(
        [Path(sys.executable).with_name("celery")],
        env={**os.environ, **line, "_CELERY_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "plain,status\n", done.stderr


def test_ids_of_findings_are_offered_whatever_their_case(complete):
    assert complete("fair", "doctor", "f10") >= {"F101", "F103"}
    assert complete("fair", "doctor", "--ignore", "F00") >= {"F001", "F009"}
