"""Each figure as a test: ``ROUNDS=5 pytest -m benchmark tests/benchmarks``.

``make bench`` measures the same, side by side where it can, and writes the table.
"""

from __future__ import annotations

import os

import pytest

from tests.benchmarks import results, ruler, servers
from tests.benchmarks.figures import BROKERS, POOLS, RUNS, figures_of
from tests.benchmarks.measuring import Cell, Options, measure
from tests.brokers.fixtures import need

ROUNDS = int(os.environ.get("ROUNDS", "5"))

pytestmark = [
    pytest.mark.timeout(0),
    pytest.mark.skipif(bool(ruler.why_not()), reason=str(ruler.why_not())),
]


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_figures_hold(run, pool, broker, tmp_path):
    need(f"{broker}-server", None if servers.why_not(broker) else broker)
    result = measure(Cell(run, pool, broker), Options(ROUNDS), tmp_path / "run")
    verdicts = {figure.name: results.verdict(figure, result) for figure in figures_of(run.name)}
    missed = {name: text for name, (passed, text) in verdicts.items() if not passed}
    assert not missed
