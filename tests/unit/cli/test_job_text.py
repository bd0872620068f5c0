"""How far jobs are, as text: in a line, in a list, with all that is known."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from celery_fair.cli import job_words as words
from celery_fair.cli.job_text import show_list, show_one
from celery_fair.jobs.progress import Band, Failure
from tests.unit.jobs.progresses import NOW, progress

NBSP = "\N{NO-BREAK SPACE}"
OTHER = "3f2a9c1e-1111-4000-8000-000000000000"


def shown(show, *arguments, width=80):
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False), *arguments)
    return out.getvalue()


# A line


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, f"running, 412 of 1{NBSP}000 done (41 %), 3 failed, 120/s, 4–6 min left"),
        ({"failed": 0, "eta": None}, f"running, 412 of 1{NBSP}000 done (41 %), 120/s"),
        ({"total": None, "eta": None, "failed": 0},
         f"running, 412 done of 1{NBSP}000 so far, 120/s"),
        ({"done": 0, "failed": 0, "running": 0, "rate": None, "eta": None, "total": 7},
         "running, 0 of 7 done (0 %), nothing has run yet"),
        ({"state": "paused", "failed": 0}, f"paused, 412 of 1{NBSP}000 done (41 %)"),
        ({"state": "paused", "failed": 0, "reason": "by ann@ops"},
         f"paused (by ann@ops), 412 of 1{NBSP}000 done (41 %)"),
        ({"state": "finished", "done": 7, "failed": 0, "total": 7},
         "finished, 7 of 7 done (100 %)"),
        ({"state": "finished with failures", "done": 999, "failed": 1, "total": 1000},
         f"finished with failures, 999 of 1{NBSP}000 done (99 %), 1 failed"),
        ({"state": "finished", "done": 0, "failed": 0, "total": 0}, "finished, no items"),
    ],
)  # fmt: skip
def test_a_line_says_how_far_a_job_is(changes, line):
    assert words.one_line(progress(**changes)) == line


@pytest.mark.parametrize(
    ("a_second", "said"),
    [(1234.0, f"1{NBSP}234/s"), (120.0, "120/s"), (1.5, "1.5/s"), (0.2, "12/min"),
     (0.01, "36/h"), (0.0001, "0.4/h"), (0.0, "0/s")],
)  # fmt: skip
def test_a_rate_is_in_the_unit_in_which_it_can_be_counted(a_second, said):
    assert words.rate(a_second) == said


@pytest.mark.parametrize(
    ("band", "said"),
    [((240, 360), "4–6 min"), ((50, 126), "50 s – 2.1 min"), ((60.0, 60.1), "about 60 s"),
     ((0, 0.4), "0–400 ms")],
)  # fmt: skip
def test_a_band_says_its_unit_once(band, said):
    assert words.span(Band(*band)) == said


# A list


def test_a_list_has_a_line_a_job_and_ids_no_longer_than_it_takes():
    jobs = [progress(), progress(id=OTHER), progress(id="nightly-2026-11-30")]
    assert [words.short(job.id, [one.id for one in jobs]) for job in jobs] == [
        "3f2a9c1e-0", "3f2a9c1e-1", "nightly-2026-11-30",
    ]  # fmt: skip
    text = shown(show_list, jobs, 0, True)
    assert text.startswith("3f2a9c1e-0          shop.summarize: running, 412 of")
    assert text.endswith("More: --start 3\n")
    assert max(map(len, text.splitlines())) <= 80


def test_a_list_without_jobs_says_so():
    assert shown(show_list, [], 0, False) == "No job is kept.\n"


def test_a_silent_producer_is_seen_in_the_list():
    silent = progress(submitting=True, producer_at=NOW - 300)
    assert "its producer is silent" in shown(show_list, [silent], 0, False, width=200)


# One job


def test_one_job_is_shown_with_all_that_is_known():
    failures = [
        Failure(17, {"page": "secret"}, "ValueError", "secret", 1, NOW - 120),
        Failure(93, "secret", "TimeoutError", "secret", 3, NOW - 30),
    ]
    job = progress(state="paused", reason="model is down, by ann@ops", yields=2, lost=1)
    text = shown(show_one, job, failures)
    assert text.splitlines() == [
        "3f2a9c1e-0000-4000-8000-000000000000  shop.summarize, batch",
        "  state     paused (model is down, by ann@ops)",
        f"  items     412 of 1{NBSP}000 done (41 %), 3 failed",
        "  pace      76 items run now, 38 in a chunk",
        "  times     submitted 10 min ago, first item done 9.8 min ago, last sign 1.0 s",
        "            ago",
        "  gave way  2 times",
        "  lost      1 chunk whose worker was not heard of again",
        "  failed    item 17: ValueError 2.0 min ago",
        "            item 93: TimeoutError, 3 times, last 30 s ago",
        "            1 more: `fair job failures` lists them",
    ]
    assert "secret" not in text, "items and messages are the user's data"


def test_a_silent_producer_is_told_with_its_cure():
    job = progress(id="nightly", submitting=True, total=None, producer_at=NOW - 300)
    text = " ".join(shown(show_one, job, []).split())
    assert "producer was not heard of for 5.0 min" in text
    assert "submit the same items again with id='nightly'" in text


def test_an_ended_job_says_when_it_ended_and_how_long_it_took():
    job = progress(state="finished", done=1000, failed=0, running=0, last_at=NOW - 60)
    text = " ".join(shown(show_one, job, []).split())
    assert "ended 60 s ago after 9.0 min" in text
    assert "run now" not in text


def test_of_a_paused_job_only_what_still_runs_has_a_pace():
    assert "76 items run now" in shown(show_one, progress(state="paused"), [])
    assert "pace" not in shown(show_one, progress(state="paused", running=0), [])


def test_what_a_name_holds_steers_no_terminal():
    text = shown(show_one, progress(task="\x1b[2Jx", reason="\x1b]0;y"), [])
    assert "\x1b" not in text
