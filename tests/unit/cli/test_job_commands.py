"""``celery fair job …``: what each does to a job, what it says, and its exit codes."""

from __future__ import annotations

import io
import json
import re
from datetime import date

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner
from rich.console import Console

from celery_fair import Fair, StateAway, job_task
from celery_fair.cli import fair, job_find, job_watch
from tests.brokers.process import free_port
from tests.unit.jobs.kept import keep, work
from tests.unit.jobs.progresses import progress

ID = "3f2a9c1e-0000-4000-8000-000000000000"
EX_USAGE, EX_UNAVAILABLE, EX_CONFIG = 2, 69, 78


@pytest.fixture
def app(make_app):
    """Its jobs are kept in memory."""
    return make_app(task_always_eager=True)


@pytest.fixture
def store(app):
    return Fair.of(app).jobs.store


@pytest.fixture
def job(app):
    """``job("show", ID)``: what came of ``celery fair job show ID``."""

    def job(*arguments, app=app):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["job", *arguments], obj=context)

    return job


# Which job


def test_an_id_may_be_cut_to_what_no_other_one_begins_with(job, store):
    keep(store, ID, 7)
    keep(store, "3f999999-0000-4000-8000-000000000000", 7)
    assert ID in job("show", "3f2").stdout
    both = job("show", "3f")
    assert both.exit_code == EX_USAGE
    assert "2 ids begin with '3f'" in both.stderr
    assert "say more of it" in both.stderr


def test_a_part_of_an_id_is_looked_for_page_by_page(job, store, monkeypatch):
    for number in range(5):
        keep(store, f"job-{number}", 1)
    monkeypatch.setattr(job_find, "PAGE", 2)
    assert json.loads(job("show", "job-0", "--json").stdout)["id"] == "job-0"
    assert "5 ids begin with 'job-'" in job("show", "job-").stderr
    keep(store, "oldest", 1)
    assert json.loads(job("show", "old", "--json").stdout)["id"] == "oldest"


def test_a_whole_id_is_meant_though_others_begin_so(job, store):
    keep(store, "nightly", 7)
    keep(store, "nightly-2", 7)
    assert json.loads(job("show", "nightly", "--json").stdout)["id"] == "nightly"


def test_an_id_that_is_nearly_right_is_answered_with_the_right_one(job, store):
    keep(store, "nightly", 7)
    missed = job("show", "nigthly")
    assert missed.exit_code == EX_USAGE
    assert "there is no job 'nigthly'; did you mean 'nightly'?" in missed.stderr


@pytest.mark.parametrize("command", ["show", "watch", "pause", "resume", "cancel", "retry",
                                     "failures", "results"])  # fmt: skip
def test_an_id_that_is_not_there_is_a_sentence_and_2(command, job):
    missed = job(command, "x")
    assert missed.exit_code == EX_USAGE
    assert "there is no job 'x'" in missed.stderr
    assert "fair job list" in missed.stderr


# To see


def test_a_list_is_paged_and_the_newest_come_first(job, store):
    for number in range(3):
        keep(store, f"job-{number}", 7)
    text = job("list", "--count", "2").stdout
    assert text.index("job-2") < text.index("job-1")
    assert "job-0" not in text
    assert "More: --start 2" in text
    said = json.loads(job("list", "--start", "2", "--count", "2", "--json").stdout)
    assert [one["id"] for one in said["jobs"]] == ["job-0"]
    assert said["more"] is False


def test_a_job_is_shown_with_its_failures_and_without_their_data(job, store):
    keep(store, ID, 7)
    work(store, ID, 1, failing=1)
    shown = job("show", ID)
    assert shown.exit_code == 0
    assert re.search(r"failed +item 0: ValueError", shown.stdout)
    assert "no page" not in shown.stdout
    assert json.loads(job("show", ID, "--json").stdout)["failed"] == 1


def test_failures_have_items_and_messages_only_when_asked_for(job, store):
    keep(store, ID, 7)
    work(store, ID, 1, failing=1)
    assert "no page" not in job("failures", ID).stdout
    assert "item 0: ValueError" in job("failures", ID).stdout
    assert re.search(r"0: ValueError.*: 0: no page", job("failures", ID, "--items").stdout)
    (plain,) = json.loads(job("failures", ID, "--json").stdout)["failures"]
    assert plain.keys() == {"index", "error", "times", "at"}
    (whole,) = json.loads(job("failures", ID, "--json", "--items").stdout)["failures"]
    assert (whole["item"], whole["message"]) == (0, "no page")


def test_a_page_without_results_says_why_beside_the_output(job, store):
    keep(store, ID, 7)
    work(store, ID, 2)
    asked = job("results", ID)
    assert (asked.exit_code, asked.stdout) == (0, "")
    assert "without results=True" in asked.stderr


def test_items_and_results_of_types_that_json_lacks_are_shown_as_text(job, app):
    @job_task(name="shop.same")
    def same(day):
        if day.day == 2:
            raise ValueError
        return day

    Fair.of(app).submit_job(same, [date(2026, 1, 1), date(2026, 1, 2)], id=ID, results=True)
    assert json.loads(job("results", ID).stdout)["result"] == "2026-01-01"
    (failure,) = json.loads(job("failures", ID, "--items", "--json").stdout)["failures"]
    assert failure["item"] == "2026-01-02"
    assert '"2026-01-02"' in job("failures", ID, "--items").stdout


# To steer


def test_a_pause_says_who_and_why_and_a_resume_ends_it(job, store):
    keep(store, ID, 7)
    paused = job("pause", ID, "--reason", "model is down")
    assert paused.exit_code == 0
    assert f"{ID}  running → paused\n" in paused.stdout
    assert re.search(r"paused \(model is down, by\s\S+@\S+\), 0 of 7 done", paused.stdout)
    assert store.progress(ID).state == "paused"
    assert "paused → running" in job("resume", ID).stdout
    assert store.progress(ID).state == "running"


def test_cancelling_is_for_good(job, store):
    keep(store, ID, 7)
    assert json.loads(job("cancel", ID, "--json").stdout)["state"] == "cancelled"
    for command in ("pause", "resume", "cancel"):
        again = job(command, ID)
        assert again.exit_code == 1, command
        assert f"the job {ID} has ended (cancelled)" in again.stderr


def test_a_retry_says_how_much_will_run_again(job, store):
    keep(store, ID, 1)
    work(store, ID, 1, failing=1)
    retried = job("retry", ID)
    assert retried.exit_code == 0
    assert f"1 item of {ID} will run again." in retried.stdout
    assert "finished with failures → running" in retried.stdout
    assert "Nothing failed" in job("retry", ID).stdout


def test_a_cancelled_job_is_not_retried(job, store):
    keep(store, ID, 2)
    work(store, ID, 1, failing=1)
    job("cancel", ID)
    assert job("retry", ID).exit_code == 1


# To watch


@pytest.fixture
def looks(monkeypatch):
    """``looks(act, …)``: what happens to the job instead of a sleep, one after the other."""

    def looks(*acts):
        left = list(acts)
        monkeypatch.setattr(job_watch.time, "sleep", lambda _: left.pop(0)())

    return looks


@pytest.mark.parametrize(("failing", "code"), [(0, 0), (1, 1)])
def test_watching_ends_with_the_job(failing, code, job, store, looks):
    keep(store, ID, 1)
    looks(lambda: None, lambda: work(store, ID, 1, failing=failing))
    watched = job("watch", ID)
    assert watched.exit_code == code
    lines = watched.stdout.splitlines()
    assert len(lines) == 2, "a look like the one before is no line"
    assert lines[0].startswith("running, 0 of 1 done")
    assert lines[1].startswith("finished")


def test_a_cancelled_job_has_an_exit_code_of_its_own(job, store, looks):
    keep(store, ID, 1)
    looks(lambda: store.pause(ID, "wait"), lambda: store.cancel(ID, "enough"))
    watched = job("watch", ID, "--json")
    assert watched.exit_code == 3
    states = [json.loads(line)["state"] for line in watched.stdout.splitlines()]
    assert states == ["running", "paused", "cancelled"]


def test_ctrl_c_leaves_the_job_alone(job, store, looks):
    def interrupt():
        raise KeyboardInterrupt

    keep(store, ID, 1)
    looks(interrupt)
    assert job("watch", ID).exit_code == 130
    assert store.progress(ID).state == "running"


def test_a_store_that_is_away_is_waited_for(job, store, looks, monkeypatch):
    keep(store, ID, 1)

    def go():
        def away(_):
            raise StateAway

        monkeypatch.setattr(store, "progress", away)

    def come():
        monkeypatch.undo()
        store.cancel(ID, "enough")
        looks(*[lambda: None] * 2)

    looks(go, come)
    watched = job("watch", ID)
    assert watched.exit_code == 3
    assert "can't be asked now" in " ".join(watched.stdout.split())
    assert "Trying again." in watched.stdout


def test_a_bar_that_is_old_says_so_where_its_line_is_not_cut():
    ended = progress(state="finished with failures", done=997)
    answers = [StateAway(), ended]

    class Asked:
        def progress(self):
            answer = answers.pop(0)
            if isinstance(answer, StateAway):
                raise answer
            return answer

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    assert job_watch.watch(console, Asked(), progress(), 0.001, as_json=False) == ended
    assert "120/s" in out.getvalue()
    assert "3 failed, the state's Redis can't" in out.getvalue()
    assert "shop.summarize: finished with failures" in out.getvalue()


# Without a store


def test_a_state_that_cannot_be_asked_is_a_sentence_without_its_password(job, make_app):
    lost = make_app(f"redis://:secret@127.0.0.1:{free_port()}/0")
    for command in (["list"], ["show", "x"], ["watch", "x"]):
        done = job(*command, app=lost)
        assert done.exit_code == EX_UNAVAILABLE, command
        assert "can't be asked now" in done.stderr
        assert "secret" not in done.output


def test_an_app_without_a_redis_is_told_how_to_have_one(job, make_app):
    done = job("list", app=make_app())
    assert done.exit_code == EX_CONFIG
    assert "state_url" in done.stderr


def test_an_app_without_a_fair_is_told_to_install_one(job, make_app):
    done = job("list", app=make_app(install=False))
    assert done.exit_code == EX_CONFIG
    assert "call Fair(app)" in done.stderr
