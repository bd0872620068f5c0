"""What ``fair doctor`` takes: ids to explain and to ignore, and what makes it fail."""

from __future__ import annotations

import json

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.doctor import RULES
from celery_fair.doctor.finding import rule
from tests.unit.cli.conftest import add_task


@pytest.fixture
def doctor(make_app):
    """``doctor(*arguments)`` on an app with one warning (F001) and one note (F011)."""
    app = make_app()
    add_task(app, "shop.report")

    def run(*arguments):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["doctor", "--no-broker", *arguments], obj=context)

    return run


def test_the_list_has_every_rule_in_a_line(doctor):
    result = doctor("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [one.id for one in RULES]


def test_an_id_is_explained_and_nothing_is_looked_at(doctor):
    result = doctor("f103")
    assert result.exit_code == 0
    assert result.stdout.startswith("F103 error  a queue of a kind that nobody consumes\n")
    assert "why   What is sent there waits for ever." in result.stdout
    assert "cure  " in result.stdout
    assert "F001" not in result.stdout


def test_rules_are_written_as_json_too(doctor):
    (found,) = json.loads(doctor("F103", "--json").stdout)["rules"]
    assert found["id"] == "F103"
    assert set(found) == {"id", "severity", "title", "why", "cure"}
    assert len(json.loads(doctor("--list", "--json").stdout)["rules"]) == len(RULES)


@pytest.mark.parametrize("arguments", [["F0011"], ["--ignore", "F0011"]])
def test_an_id_that_does_not_exist_is_refused_with_the_nearest(doctor, arguments):
    result = doctor(*arguments)
    assert result.exit_code == 2
    assert "there is no finding 'F0011'; did you mean 'f0" in result.stderr


def test_what_is_ignored_neither_shows_nor_fails(doctor):
    assert doctor().exit_code == 1
    result = doctor("--ignore", "f001,F011")
    assert result.exit_code == 0
    assert "Nothing found" in result.stdout


@pytest.mark.parametrize(
    ("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)]
)
def test_what_fails_can_be_chosen(doctor, fail_on, code):
    assert doctor("--fail-on", fail_on).exit_code == code


def test_notes_alone_fail_only_where_that_is_asked_for(doctor):
    assert doctor("--ignore", "F001").exit_code == 0
    assert doctor("--ignore", "F001", "--fail-on", "info").exit_code == 1


def test_a_taken_id_is_given_to_no_other_rule():
    with pytest.raises(ValueError, match="expected an id of its own"):
        rule("F001", "info", "something else", why="-", cure="-")
