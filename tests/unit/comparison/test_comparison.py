"""That the comparison with other ways pairs its runs, keeps failures, and makes a report."""

from __future__ import annotations

import random
import re
from statistics import median

import pytest

from tests.benchmarks.others import contestants, figures, loads, report, running


def run(contestant="fair", seed=1, **changed):
    return {
        "contestant": contestant,
        "load": "mixed",
        "seed": seed,
        "digest": "d",
        "slots": 8,
        "seconds": 30.0,
        "waits": [[0.1, True], [0.2, True], [0.3, True], [2.0, True]],
        "interactive_slots": 0.2,
        "batch_slots": 6.0,
        "batch_per_second": 3.0,
        "longest_batch_gap": 1.0,
        "longest_without_batch": 0.0,
        "lost": 0,
        "executed_twice": 0,
        "producer_lag_max": 0.02,
        "versions": {"python": "3.11.7", "celery": "5.7.0"},
        "server": "Redis 7.0.15",
        "began": {"at": "2026-11-30T23:00:00+00:00", "load_average": [0.1, 0.1, 0.1]},
        "busy": {"cpu_busy": 0.1},
        "machine": {"cpus": 2, "system": "Linux", "commit": "abc"},
        **changed,
    }


FAILED = {"contestant": "rq", "load": "mixed", "seed": 1, "failed": "TrialError: a <worker> died"}
NEVER = run("fifo", waits=[[9.0, False]] * 4, batch_slots=8.0)


def test_the_same_seed_gives_the_same_run_times_and_another_seed_others():
    def draw(seed):
        source = random.Random(seed)
        return [loads.BATCH.draw(source) for _ in range(2000)]

    assert draw("1 batch") == draw("1 batch") != draw("2 batch")
    assert median(draw("1 batch")) == pytest.approx(1.2, rel=0.1)
    assert max(draw("1 batch")) == 15.0


def test_a_digest_tells_other_arrivals_and_other_run_times():
    digest = loads.digest([(0.5, 0.1)], [1.0])
    assert digest == loads.digest([(0.5, 0.1)], [1.0])
    assert digest != loads.digest([(0.6, 0.1)], [1.0])
    assert digest != loads.digest([(0.5, 0.1)], [1.1])


def test_runs_of_a_load_and_a_seed_that_had_another_trace_are_named():
    other = run("huey", digest="e")
    assert figures.unpaired([run(), run("fifo"), run(seed=2, digest="e"), FAILED]) == []
    assert figures.unpaired([run(), other]) == ["mixed, seed 1"]


def test_every_other_seed_runs_the_contestants_backwards():
    names = [trial.contestant.name for trial in running.trials(["mixed"], 2, ["fifo", "fair"])]
    assert names == ["fifo", "fair", "fair", "fifo"]


def test_a_wait_of_a_task_that_never_started_is_a_lower_bound():
    fifo, fair = figures.rows([run(), NEVER], "mixed")
    assert fifo.wait(0.5) == (9.0, False)
    assert fair.wait(0.5) == (0.2, True)
    assert fair.wait(0.95) == (2.0, True)
    assert dict(zip(figures.HEADINGS, figures.cells(fifo), strict=True)) == {
        "contestant": "fifo",
        "p50": "≥ 9.00",
        "p95": "≥ 9.00",
        "p99": "≥ 9.00",
        "max": "≥ 9.00",
        "never started": "4 of 4",
        "batch/s": "3.00",
        "batch's slot time": "100%",
        "× fifo": "1.00",
        "no batch began": "1.0 s",
        "no batch ran": "0.0 s",
        "lost": "0",
        "twice": "0",
        "published late": "0.02 s",
        "failed": "0",
    }


def test_the_cost_to_batch_is_of_the_same_seed():
    runs = [run(), run(seed=2), NEVER, {**NEVER, "seed": 2, "batch_slots": 6.0}]
    _, fair = figures.rows(runs, "mixed")
    assert fair.batch_ratio == pytest.approx((6 / 8 + 6 / 6) / 2)


def test_who_failed_has_a_row():
    rows = figures.rows([run("rq", seed=2), FAILED], "mixed")
    assert [figures.cells(row)[-1] for row in rows] == ["1 of 2"]
    (only,) = figures.rows([FAILED], "mixed")
    assert figures.cells(only)[1:] == ["–"] * 4 + [
        "0",
        "–",
        "–",
        "–",
        "–",
        "–",
        "0",
        "0",
        "–",
        "1 of 1",
    ]


def test_what_a_trial_said_last_is_its_reason():
    assert running._reason("Traceback …\nTrialError: a worker died\n\n") == (
        "TrialError: a worker died"
    )


def test_the_page_is_one_file_with_its_plots_and_its_failures(tmp_path):
    pytest.importorskip("matplotlib")
    page = report.page([run(), NEVER, FAILED])
    assert page.count("<svg") == 2
    assert "a &lt;worker&gt; died" in page
    assert "Redis 7.0.15, commit abc" in page
    assert not re.search(r"<(script|link|img)\b", page)


def test_the_tables_go_between_the_markers_of_the_docs_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"head\n\n{report.BEGIN}\nold\n{report.END}\n\ntail\n")
    report.write_into(page, report.tables([run(), FAILED]))
    text = page.read_text()
    assert text.startswith("head\n\n")
    assert text.endswith("\n\ntail\n")
    assert "old" not in text
    assert "| fair | 0.200 | 2.00 |" in text
    assert "- `rq`, seed 1, failed: TrialError: a <worker> died" in text


def test_the_docs_name_every_contestant_and_whoever_was_found_wanting():
    page = (running.ruler.ROOT / "docs" / "comparison.md").read_text()
    for name in [*contestants.CONTESTANTS, *contestants.NOT_MEASURED]:
        assert name.split()[0] in page


def test_each_environment_of_a_contestant_has_its_requirements():
    for contestant in contestants.CONTESTANTS.values():
        if contestant.environment:
            assert (running.REQUIREMENTS / f"{contestant.environment}.txt").is_file()
            assert contestant.environment in running.EXTRAS
