"""``fair explain`` as a program: whom it asks, what it writes, and its exit codes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import asking, fair
from celery_fair.cli.seen import Look, Seen
from celery_fair.observe.place import Place
from tests.unit.cli.explained import NOW, report, task


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture
def invoke(app):
    def invoke(*arguments):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["explain", *arguments], obj=context)

    return invoke


@pytest.fixture
def world(monkeypatch):
    """What answers: ``replies`` one after the other, ``look``, and the calls that were made."""
    world = SimpleNamespace(replies=[], look=Look(is_readable=True), calls=[], looks=0)

    def ask(app, command, **options):
        world.calls.append((command, options["arguments"], options["destination"]))
        answers = world.replies.pop(0) if len(world.replies) > 1 else world.replies[0]
        return answers if command == "fair_explain" else {}

    def look_for(app, id, queues, seconds):
        world.looks += 1
        if isinstance(world.look, Exception):
            raise world.look
        return world.look

    monkeypatch.setattr(asking, "ask", ask)
    monkeypatch.setattr(asking, "look_for", look_for)
    monkeypatch.setattr(asking, "oldest_in", lambda app, queues, seconds: NOW - 200)
    return world


def test_a_task_that_a_worker_has_needs_no_look_at_the_broker(invoke, world):
    world.replies = [{"w1": report(task=task("running", started_at=NOW - 5))}]
    result = invoke("an-id")
    assert result.exit_code == 0
    assert result.stdout.startswith("an-id runs on w1")
    assert world.looks == 0
    assert [call[1] for call in world.calls] == [{"task_id": "an-id"}]


def test_as_json_it_is_one_object_with_the_reason_first(invoke, world):
    world.replies = [{"w1": report()}]
    world.look = Look(Seen(Place.BROKER, "nightly", 0, kind="batch"), is_readable=True)
    said = json.loads(invoke("an-id", "--json").stdout)
    assert (said["place"], said["reason"]) == ("broker", "no_consumer")
    assert said["starts_in"] == {"unknown": "no worker consumes its queue"}


def test_one_that_nobody_knows_ends_with_1_after_two_looks_and_a_second_question(invoke, world):
    world.replies = [{"w1": report()}]
    result = invoke("an-id")
    assert result.exit_code == 1
    assert "an-id is not known to anybody" in result.stdout
    assert world.looks == 2
    assert len(world.calls) == 2


def test_one_that_a_worker_has_taken_meanwhile_is_found_by_the_second_question(invoke, world):
    world.replies = [{"w1": report()}, {"w1": report(task=task("running", started_at=NOW))}]
    world.look = Look(Seen(Place.UNACKNOWLEDGED, "celery.batch"), is_readable=True)
    assert invoke("an-id").stdout.startswith("an-id runs on w1")


def test_with_no_worker_that_answers_the_broker_may_still_know(invoke, world):
    world.replies = [{}]
    world.look = Look(Seen(Place.BROKER, "celery.batch", 3, kind="batch"), is_readable=True)
    result = invoke("an-id")
    assert result.exit_code == 0
    assert "waits at the broker, 4th in line in celery.batch" in result.stdout


def test_with_nobody_who_answers_or_knows_it_ends_with_69(invoke, world):
    world.replies = [{}]
    result = invoke("an-id", "--worker", "w9")
    assert result.exit_code == 69
    assert "None of w9 answered within 1 s" in result.stderr


def test_a_broker_that_can_not_be_looked_at_is_said_and_the_rest_goes_on(invoke, world):
    world.replies = [{"w1": report()}]
    world.look = ConnectionError("redis://:secret@host")
    result = invoke("an-id")
    assert result.exit_code == 1
    assert "could not be looked at (ConnectionError)" in " ".join(result.stdout.split())
    assert "secret" not in result.output


def test_the_result_backend_is_asked_last_and_its_result_is_never_shown(invoke, world, app):
    world.replies = [{"w1": report()}]
    meta = {"status": "SUCCESS", "date_done": "2027-01-15T08:00:00", "result": "s3cret"}
    app.backend.get_task_meta = lambda id: meta
    result = invoke("an-id", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["result_backend"]["state"] == "SUCCESS"
    assert "s3cret" not in result.output


def test_a_kind_is_explained_over_all_workers(invoke, world):
    world.replies = [{"w1": report(), "old": {"error": "KeyError('fair_explain')"}}]
    result = invoke("--kind", "batch")
    assert result.exit_code == 0
    assert "batch: 0 wait" in result.stdout
    assert "oldest  was ready" in result.stdout
    assert "without celery-fair, and so not told of: old" in result.stdout


def test_a_worker_is_asked_alone_and_for_its_last_decisions(invoke, world):
    world.replies = [{"w1": report(recent=[], changes=[])}]
    assert invoke("--worker", "w1").stdout.startswith("w1   gate protected")
    assert world.calls == [("fair_explain", {"recent": 10}, ["w1"])]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected a task's id, --kind or --worker, and got none"),
        (["x" * 256], "expected a task's id of 1 to 255 characters, got 256"),
        ([""], "expected a task's id of 1 to 255 characters, got 0"),
        (["--kind", "urgent"], "'urgent' is not one of 'interactive', 'batch'"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_sentence(invoke, arguments, sentence):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())


def test_a_result_backend_that_cant_be_made_here_takes_nothing_from_the_answer(app, invoke, world):
    app.conf.result_backend = "nosuch://here"
    world.replies = [{"w1": report()}]
    result = invoke("an-id")
    assert result.exit_code == 1, (result.output, result.exception)
    assert "is not known to anybody" in result.stdout
