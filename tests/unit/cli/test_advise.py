"""``fair advise``: what it tells, its exit codes, and how it refuses what can't be asked."""

from __future__ import annotations

import json

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.sim.trace import Arrival, write_line

LOAD = ("--interactive-rate", "2", "--interactive-run", "exp 0.2", "--batch-run", "2",
        "--slots", "4", "--seconds", "30", "--warmup", "10")  # fmt: skip
SLO = ("--slo", "p95 < 10s")


@pytest.fixture
def invoke(make_app):
    def invoke(*arguments, app=None):
        context = CLIContext(app=app or make_app(), no_color=True, workdir=None)
        return CliRunner().invoke(fair, ("advise", *map(str, arguments)), obj=context)

    return invoke


def test_what_is_met_today_ends_with_0_and_is_drawn(invoke, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.svg"
    result = invoke(*LOAD, *SLO, "--batch", "0.2/s", "--most-seconds", 0.6, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 worker, 30 s after 10 s simulated\ntoday: 4 slots")
    assert "Batch needs 0.4 slots by itself" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert picture.stat().st_size > 5000


def test_what_is_not_met_ends_with_1_and_more_slots_are_advised(invoke):
    result = invoke(*LOAD, *SLO, "--batch", "2/s", "--slots-at-most", 7, "--json")
    assert result.exit_code == 1, result.output
    said = json.loads(result.stdout)
    assert said["targets"] == [
        {"name": "interactive p95 < 10s", "limit": 10.0},
        {"name": "batch 2/s", "limit": 2.0},
    ]
    assert said["plan"]["batch"]["backlog"] == 100_000, "batch that always waits, as none was said"
    assert (said["today"]["slots"], said["today"]["state"]) == (4, "missed")
    assert said["advice"]["state"] == "met"
    assert said["advice"]["targets"]["batch 2/s"]["mean"] >= 2.3
    assert said["first_guess"]["least"] <= said["advice"]["slots"] <= 7


def test_what_no_number_of_slots_up_to_the_bound_can_do_is_said(invoke):
    result = invoke(*LOAD, *SLO, "--batch", "4/s", "--slots-at-most", 6, "--most-seconds", 0.6)
    assert result.exit_code == 1
    assert "Nothing up to 6 slots meets this." in result.stdout
    assert "Batch needs 8.0 slots by itself" in result.stdout


def test_a_recorded_day_says_when_it_was(invoke, tmp_path):
    day = tmp_path / "day.jsonl"
    arrivals = [Arrival(1_796_000_000.0, "batch", 2.0)] * 40
    arrivals += [Arrival(1_796_000_000.0 + n, "interactive", 0.1) for n in range(60)]
    day.write_text("".join(map(write_line, arrivals)))
    asked = ("--trace", day, "--slots", 4, *SLO, "--most-seconds", 0.3)
    said = json.loads(invoke(*asked, "--batch", "done in 1min", "--json").stdout)
    assert said["today"]["targets"]["batch done in 1min"]["mean"] == pytest.approx(25, rel=0.3)
    assert "batch done by 07:00 " in invoke(*asked, "--batch", "done by 7:00").stdout, "in any time"
    later = [one._replace(at=one.at - 1_796_000_000.0) for one in arrivals]
    day.write_text("".join(map(write_line, later)))
    result = invoke(*asked, "--batch", "done by 7:00")
    assert result.exit_code == 2
    assert "--batch: expected a trace whose first `at` is seconds since 1970" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--slo: expected what is to be met, as in 'interactive p95 < 2s'"),
        (("--slo", "fast"), "--slo: expected sentences like"),
        (("--slo", "p95 < 1s", "--slo", "p95 < 2s"), "each percentile of a kind once"),
        ((*SLO, "--batch", "soon"), "--batch: expected 'done by 07:00', 'done in 6h' or a rate"),
        ((*SLO, "--batch", "done in 6h"), "say how much there is with --batch-at-start"),
        ((*SLO, "--batch", "done by 07:00", "--from", "soon"), "expected a time of day like 07:00"),
        ((*SLO, "--batch", "300/h", "--batch-rate", 0.01),
         "expected 345 tasks an hour to come at least"),
        ((*SLO, "--batch", "done in 1h", "--batch-at-start", 5, "--batch-backlog", 5),
         "a backlog that always waits is never done"),
        ((*SLO, "--plot", "x.gif"), "expected a file that ends in .png or .svg"),
        ((*SLO, "--batch-run", "long"), "batch.run: expected seconds"),
    ],
)  # fmt: skip
def test_what_can_not_be_asked_is_refused_with_what_was_expected(invoke, arguments, said):
    result = invoke("--interactive-rate", 1, *arguments)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split())
