"""``fair simulate``: what it tells, and how it refuses what it can't make sense of."""

from __future__ import annotations

import json
import sys

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.cli.simulate_plan import PlanError, RunTime, make_plan
from celery_fair.sim.trace import Arrival, write_line

SHORT = ("--seconds", "20", "--warmup", "5", "--seeds", "2", "--slots", "4")
LOAD = ("--interactive-rate", "4", "--interactive-run", "0.05", "--batch-backlog", "20",
        "--batch-run", "1.5-2.5")  # fmt: skip


@pytest.fixture
def invoke(make_app):
    def invoke(*arguments, app=None):
        context = CLIContext(app=app or make_app(), no_color=True, workdir=None)
        return CliRunner().invoke(fair, ("simulate", *map(str, arguments)), obj=context)

    return invoke


def test_settings_and_plain_celery_stand_side_by_side(invoke):
    result = invoke(*LOAD, *SHORT, "--try", "reserve=2", "--plain", "fifo")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "1 worker of 4 slots, 20 s after 5.0 s, 2 seeds"
    assert [line.split()[0] for line in lines[2:5]] == ["fair", "reserve=2", "fifo"]
    assert max(map(len, lines)) <= 80
    assert "█" in result.stdout


def test_json_has_the_plan_and_every_figure_with_its_band(invoke):
    result = invoke(*LOAD, *SHORT, "--json")
    said = json.loads(result.stdout)
    assert said["plan"]["batch"]["run"] == "1.5-2.5"
    (one,) = said["outcomes"]
    assert one["name"] == "fair"
    assert set(one["of"]["interactive"]["waits"]["p95"]) == {"mean", "spread"}
    assert 0.5 < one["utilisation"]["mean"] <= 1
    assert one["of"]["batch"]["rate"]["mean"] == pytest.approx(1.5, rel=0.2)


def test_the_same_seeds_give_the_same_figures(invoke):
    assert invoke(*LOAD, *SHORT, "--json").stdout == invoke(*LOAD, *SHORT, "--json").stdout


def test_an_apps_own_settings_are_the_base(invoke, make_app):
    shares = []
    for given in (make_app(fair={"batch_share": 0.5, "reserve": 0}), make_app()):
        result = invoke("--interactive-rate", 50, "--interactive-run", "0.2", "--batch-backlog", 20,
                        "--batch-run", 1, *SHORT, "--json", app=given)  # fmt: skip
        shares.append(json.loads(result.stdout)["outcomes"][0]["of"]["batch"]["share"]["mean"])
    assert shares == pytest.approx([0.5, 0.2], abs=0.06)


def test_a_plan_is_a_file_and_options_come_before_it(invoke, tmp_path):
    pytest.importorskip("yaml")
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "workers: 2\nslots: 2\nseconds: 20\nwarmup: 5\nseeds: 1\n"
        "interactive: {rate: 4, run: exp 0.05}\n"
        "batch: {tenants: {a: 0.5, b: 0.5}, run: [1, 2, 3], uses: [gpu]}\n"
        "settings:\n  today: {}\n  limited: {resources: {gpu: {max_running: 1}}}\n"
        "plain: [reserved-slot-late]\n"
    )
    result = invoke(plan, "--workers", 3, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["plan"]["workers"] == 3
    today, limited, plain = said["outcomes"]
    assert [today["name"], limited["name"], plain["name"]] == [
        "today", "limited", "reserved-slot-late"
    ]  # fmt: skip
    assert limited["of"]["batch"]["share"]["mean"] <= 1 / 6 + 0.01
    assert set(today["of"]["batch"]["tenants"]) == {"a", "b"}


def test_a_recorded_day_is_replayed(invoke, tmp_path):
    day = tmp_path / "day.jsonl"
    arrivals = [Arrival(1000.0 + i, "batch" if i % 2 else "interactive", 0.2) for i in range(30)]
    day.write_text("".join(map(write_line, arrivals)))
    result = invoke("--trace", day, "--seeds", 1, "--json")
    (one,) = json.loads(result.stdout)["outcomes"]
    assert one["of"]["interactive"]["published"] == one["of"]["batch"]["published"] == 15
    day.write_text("nothing\n")
    result = invoke("--trace", day)
    assert result.exit_code == 2
    assert "line 1: expected a JSON object, got 'nothing'" in result.stderr


def test_tenants_of_a_recorded_day_take_turns_unless_that_is_off(invoke, tmp_path):
    day = tmp_path / "day.jsonl"
    big = [Arrival(0.0, "batch", 1.0, tenant="big")] * 60
    small = [Arrival(1.0, "batch", 1.0, tenant="small")] * 2
    day.write_text("".join(map(write_line, big + small)))
    tries = "batch_shards=8", "batch_shards=8,tenant_turns=false"
    result = invoke("--trace", day, "--slots", 4, "--seeds", 1, "--json",
                    *(part for one in tries for part in ("--try", one)))  # fmt: skip
    assert result.exit_code == 0, result.output
    outcomes = json.loads(result.stdout)["outcomes"]
    waits = [one["of"]["batch"]["tenants"]["small"]["max"] for one in outcomes]
    assert waits[1] < 5
    assert min(waits[0], waits[2]) > 10


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_written(invoke, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"picture.{suffix}"
    assert invoke(*LOAD, *SHORT, "--plot", picture).exit_code == 0
    assert picture.stat().st_size > 5000


def test_names_are_neither_markup_nor_formulas(invoke, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("yaml")
    plan = tmp_path / "plan.yaml"
    plan.write_text("settings: {'[/b]': {}, '$\\x$': {}}\nseconds: 5\nbatch: {rate: 1}\n")
    result = invoke(plan, "--plot", tmp_path / "x.svg")
    assert result.exit_code == 0, result.output
    assert "[/b]" in result.stdout


def test_without_matplotlib_it_is_said_before_anything_runs(invoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = invoke(*LOAD, "--seconds", 1e6, "--plot", tmp_path / "x.png")
    assert result.exit_code == 69
    assert "pip install 'celery-fair[simulate]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected a load of one kind at least, got none"),
        (("--interactive-rate", 1, "--plot", "x.gif"), "ends in .png or .svg, got x.gif"),
        (("--interactive-rate", 1, "--plot", "/no/x.png"), "expected a folder that exists"),
        (("--interactive-rate", 1, "--plain", "fifoo"), "did you mean 'fifo'?"),
        (("--interactive-rate", 1, "--plain", "dedicated", "--slots", 1), "expected slots above 1"),
        (("--interactive-rate", 1, "--try", "reservee=1"), "did you mean 'reserve'?"),
        (("--interactive-rate", 1, "--try", "reserve"), "expected NAME=VALUE, got 'reserve'"),
        (("--interactive-rate", 1, "--try", "reserve=-1"), "expected a number of slots from 0"),
        (("--interactive-rate", 1, "--try", "reserve=8"), "expected reserve to be at most 6"),
        (("--interactive-rate", 1, "--try", "metrics_port=1"), "that a simulation acts on"),
        (("--interactive-rate", 1, "--interactive-run", "soon"), "expected seconds (2), a span"),
    ],
)
def test_what_it_cant_simulate_is_refused_by_name(invoke, arguments, said):
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"slot": 4}, "slot: there is no such name; did you mean 'slots'?"),
        ({"batch": {"rat": 4}}, "batch.rat: there is no such name; did you mean 'rate'?"),
        ({"interactive": 4}, "interactive: "),
        ({"workers": 0}, "workers: expected a number from 1 to 10000, got 0"),
        ({"batch": {"rate": "fast"}}, "batch.rate: expected arrivals a second, from 0, got 'fast'"),
        ({"broker": "kafka"}, "broker: expected 'redis' or 'rabbitmq', got 'kafka'"),
        ({"interactive": {"backlog": 3}}, "interactive.backlog: expected 0"),
        ({"settings": {"fifo": {}}, "plain": ["fifo"], "batch": {"rate": 1}}, "settings.fifo"),
        ({"settings": {}, "batch": {"rate": 1}}, "expected at least one, or a plain set-up"),
        ({"settings": {"\x1b[2J": {}}, "batch": {"rate": 1}}, "names that can be printed"),
        ({"seconds": 1e9}, "seconds: expected seconds above 0, up to 1e+07"),
        ({"batch": {"at_start": 10**12}}, "batch.at_start: expected tasks there at once, from 0"),
        ({"batch": {"tenants": {"a": -1}}}, "expected rates by tenant, each from 0, got -1"),
        ({"round_trip": 1e-300}, "round_trip: expected seconds from 0.000001"),
    ],
)
def test_a_typo_in_a_plan_is_told_with_what_was_expected(values, said):
    with pytest.raises(PlanError) as caught:
        make_plan(values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "said", [2, 0.5, "2", "1e-3", "1.5-2.5", "exp 3", "lognormal 0.2 3", [1, 2.5]], ids=str
)
def test_run_times_have_several_ways_to_be_said(said):
    assert RunTime(said).said == said


@pytest.mark.parametrize(
    "said", [True, -1, "", "2-1", "exp", "lognormal 3 0.2", "lognormal 0 1", [], ["a"], {}], ids=str
)
def test_a_run_time_that_is_none_is_refused(said):
    with pytest.raises(ValueError, match="expected seconds"):
        RunTime(said)


def test_a_file_that_is_no_plan_is_refused(invoke, tmp_path):
    pytest.importorskip("yaml")
    plan = tmp_path / "plan.yaml"
    for text, said in (
        ("- 1\n", "expected a mapping of names"),
        ("{a: [", "expected YAML, got"),
        ("[" * 5000, "expected YAML, got"),
        ("settings: [a]\n", "settings: expected a mapping, got ['a']"),
        ("plain: fifo\nsettings:\n", "plain: expected a list, got 'fifo'"),
    ):
        plan.write_text(text)
        result = invoke(plan, "--plain", "strict", "--try", "reserve=2")
        assert result.exit_code == 2
        assert said in result.stderr
