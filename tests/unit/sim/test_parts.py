"""Run times, histograms, bands, queues and traces, each by itself."""

from __future__ import annotations

import gzip
import math
import os
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy import BATCH, INTERACTIVE
from celery_fair.sim import (
    Arrivals,
    FairSetup,
    Scenario,
    Work,
    constant,
    empirical,
    exponential,
    lognormal,
    run,
    uniform,
)
from celery_fair.sim.experiment import Band, outcome, simulate
from celery_fair.sim.histogram import Histogram
from celery_fair.sim.queues import Queue
from celery_fair.sim.task import Stream
from celery_fair.sim.trace import (
    Arrival,
    TraceError,
    read_note,
    read_recorded,
    read_trace,
    write_line,
)


def drawn(draw, number=20_000):
    source = random.Random("test")
    return sorted(draw(source) for _ in range(number))


def test_run_times_are_as_they_are_said_to_be():
    assert set(drawn(constant(2.0), 5)) == {2.0}
    low, *_, high = drawn(uniform(1, 3))
    assert 1 <= low < 1.01
    assert 2.99 < high <= 3
    assert statistics.fmean(drawn(exponential(0.5))) == pytest.approx(0.5, rel=0.03)
    values = drawn(lognormal(0.2, 3.0))
    assert values[10_000] == pytest.approx(0.2, rel=0.1)
    assert values[19_000] == pytest.approx(3.0, rel=0.15)
    assert set(drawn(empirical([1.0, 5.0]), 100)) == {1.0, 5.0}
    assert drawn(empirical([1.0, 5.0], [3, 1])).count(1.0) == pytest.approx(15_000, rel=0.03)


@given(st.lists(st.floats(1e-4, 1e6), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_quantiles_of_a_histogram_are_off_by_one_per_cent_at_the_most(values, part):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(math.ceil(part * len(values)), 1) - 1]
    assert histogram.quantile(part) == pytest.approx(exact, rel=0.0101)
    assert histogram.mean == pytest.approx(statistics.fmean(values))


def test_a_histogram_knows_nothing_and_no_time():
    histogram = Histogram()
    assert math.isnan(histogram.quantile(0.5))
    histogram.add(0.0)
    assert (histogram.quantile(0.5), histogram.most) == (0.0, 0.0)


def test_merged_histograms_count_all():
    one, other = Histogram(), Histogram()
    one.add(1.0)
    other.add(9.0)
    one.merge(other)
    assert (one.count, one.most, one.mean) == (2, 9.0, 5.0)


def test_a_band_is_the_mean_and_students_interval():
    band = Band.of([1.0, 2.0, 3.0])
    assert band.mean == 2.0
    assert band.spread == pytest.approx(4.303 / math.sqrt(3))
    assert math.isnan(Band.of([1.0]).spread)
    assert math.isnan(Band.of([math.nan]).mean)


def test_a_backlog_of_a_million_is_a_time_each():
    queue = Queue()
    stream = Stream(BATCH, constant(1.0), random.Random(1))
    queue.put(stream, 0.0, 1_000_000)
    assert queue.count == 1_000_000
    first = queue.take()
    assert (first.number, first.published) == (0, 0.0)
    queue.put_back(first)
    assert queue.take() is first


def test_sums_tell_what_every_task_tells():
    case = Scenario(
        "test", Work(exponential(0.3), (Arrivals(5),)), Work(uniform(0.5, 2), (Arrivals(1),)),
        slots=4, warmup=5, duration=60,
    )  # fmt: skip
    every, sums = run(case, FairSetup()), simulate(case, FairSetup())
    for kind in (INTERACTIVE, BATCH):
        assert sums.of[kind].waits.quantile(0.95) == pytest.approx(every.wait(kind), rel=0.011)
        assert sums.of[kind].waits.most == pytest.approx(every.wait(kind, 1.0))
        assert sums.rate(kind) == every.rate(kind)
        assert sums.share(kind) == pytest.approx(every.share(kind))
        mean = statistics.fmean(sums.busy[kind]) / sums.slots
        assert mean == pytest.approx(every.share(kind), rel=0.03)
    assert sums.longest_batch_gap == pytest.approx(every.longest_gap())


def test_an_outcome_has_bands_over_seeds():
    case = Scenario("test", Work(exponential(0.3), (Arrivals(5),)), Work(constant(1.0)), slots=4)
    found = outcome("fair", [simulate(case, FairSetup(), seed) for seed in (1, 2, 3)])
    waits = found.of[INTERACTIVE].waits["p95"]
    assert 0 < waits.spread < math.inf
    assert found.of[INTERACTIVE].rate.mean == pytest.approx(5, rel=0.2)


LINES = [
    Arrival(100.0, INTERACTIVE, 0.05, "shop.answer", "acme"),
    Arrival(100.5, BATCH, 2.0, "shop.report", None, ("openai",)),
    Arrival(101.0, INTERACTIVE, 0.1),
]


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_read_as_it_was_written(tmp_path, packed):
    path = tmp_path / "day.jsonl"
    text = "".join(map(write_line, LINES)).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    assert list(read_trace(path)) == [one._replace(at=one.at - 100.0) for one in LINES]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "expected a JSON object, got '{'"),
        ("[1]", "expected a JSON object"),
        ('{"at": 1, "kind": "bach", "seconds": 1}', "expected kind to be interactive or batch"),
        ('{"at": 1, "kind": "batch"}', "expected seconds to be a number of seconds, got None"),
        ('{"at": -1, "kind": "batch", "seconds": 1}', "expected at to be 0 or more"),
        ('{"at": 1, "kind": "batch", "seconds": NaN}', "expected seconds to be 0 or more"),
        ('{"at": 1, "kind": "batch", "seconds": 1, "tenant": 7}', "expected tenant to be a string"),
        ('{"at": 1, "kind": "batch", "seconds": 1, "uses": "a"}', "expected uses to be a list"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path, line, said):
    path = tmp_path / "day.jsonl"
    path.write_text(write_line(LINES[0]) + "\n" + line + "\n")
    with pytest.raises(TraceError, match="line 3") as caught:
        list(read_trace(path))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"0" * 5_000_000), "line 1: expected at most 65536 characters, got more"),
        (gzip.compress(b"\n" * 100)[:-9], "after line"),
        (gzip.compress(random.Random(1).randbytes(99))[:20] + b"\0" * 20, "expected UTF-8, gz"),
        (b"\xff\xfe{}", "expected UTF-8, gzipped or not"),
        (b"[" * 60_000, "line 1: expected a JSON object"),
        (b'{"at": 1' + b"0" * 400 + b', "kind": "batch", "seconds": 1}', "at to be 0 or more, and"),
    ],
    ids=["bomb", "cut", "corrupt", "binary", "deep", "huge"],
)
def test_a_hostile_trace_is_refused_in_little_memory(tmp_path, content, said):
    path = tmp_path / "day"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=re.escape(said)):
        list(read_trace(path))


def test_a_pipe_is_no_trace_since_it_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(TraceError, match="expected a file, as it is read several times"):
        list(read_trace(path))


def test_a_trace_out_of_order_is_refused(tmp_path):
    path = tmp_path / "day.jsonl"
    path.write_text("".join(map(write_line, reversed(LINES))))
    with pytest.raises(TraceError, match="in order of time"):
        list(read_trace(path))


def test_a_sample_is_made_up_for_with_its_rate_its_pauses_and_its_mix(tmp_path):
    path = tmp_path / "day.jsonl"
    some = [Arrival(at, INTERACTIVE, 0.1 * (1 + at % 3)) for at in [*range(100), *range(900, 1000)]]
    path.write_text('{"trace": {"sample": 0.1}}\n' + "".join(map(write_line, some)))
    whole = list(read_trace(path))
    assert len(whole) == 10 * len(some)
    assert [one.at for one in whole] == sorted(one.at for one in whole)
    assert sum(one.seconds for one in whole) == pytest.approx(10 * sum(o.seconds for o in some))
    assert sum(one.at < 100 for one in whole) >= 990
    assert list(read_trace(path)) == whole
    assert len(list(read_recorded(path))) == len(some)
    assert read_note(path) == {"sample": 0.1}


@pytest.mark.parametrize("note", ['{"sample": 0}', '{"sample": true}', '{"sample": 1e-9}', "7"])
def test_a_note_that_says_nothing_sensible_is_refused(tmp_path, note):
    path = tmp_path / "day.jsonl"
    path.write_text(f'{{"trace": {note}}}\n' + write_line(LINES[0]))
    with pytest.raises(TraceError, match=r"expected (sample|trace) to be"):
        list(read_trace(path))


def test_a_recorded_day_is_replayed_with_its_own_run_times():
    case = Scenario(
        "day", Work(constant(9.0)), Work(constant(9.0)), slots=4, warmup=0, duration=10,
        trace=lambda: iter([one._replace(at=one.at - 100.0) for one in LINES]),
    )  # fmt: skip
    found = run(case, FairSetup())
    told = [(task.published, task.service, task.tenant) for task in found.tasks]
    assert told == [(0.0, 0.05, "acme"), (0.5, 2.0, None), (1.0, 0.1, None)]
    assert {task.endings for task in found.tasks} == {1}
