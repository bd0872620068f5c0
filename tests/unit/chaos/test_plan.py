"""A chaos run is a pure function of its seed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.plan import FAULTS, make_plan
from tests.nodes.worker import ROOT

SHORT = {"tasks": 1500, "broker": "redis", "pool": "prefork"}


def test_the_same_seed_makes_the_same_plan():
    assert make_plan(7, **SHORT) == make_plan(7, **SHORT)
    assert make_plan(7, **SHORT) != make_plan(8, **SHORT)


def test_the_same_seed_makes_the_same_plan_in_another_process():
    command = [sys.executable, "-m", "tests.chaos", "--dry-run", "--seed", "7", "--tasks", "1500"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == make_plan(7, **SHORT).text()


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_has_all_its_tasks_and_each_fault(seed):
    plan = make_plan(seed, **SHORT)
    assert sum(call.size for call in plan.calls) == 1500
    assert len({call.id for call in plan.calls}) == len(plan.calls)
    assert {fault.name for fault in plan.faults} == set(FAULTS) - {"stall"}
    assert 2 <= plan.workers <= 4
    assert all(fault.worker < plan.workers for fault in plan.faults)


def test_a_plan_of_more_faults_has_workers_that_stand_still_for_longer_than_a_lease():
    plan = make_plan(1, tasks=2000, broker="redis", pool="threads")
    assert {fault.name for fault in plan.faults} == set(FAULTS) - {"kill_child", "resize"}
    assert plan.stalls
    assert not make_plan(1, **SHORT).stalls


def test_faults_come_in_order_after_a_start_and_before_an_end_in_peace():
    places = [
        fault.at for fault in make_plan(3, tasks=10_000, broker="redis", pool="gevent").faults
    ]
    assert places == sorted(places)
    assert places[0] >= 500
    assert places[-1] <= 8500
    assert len(places) == 80


def test_a_plan_asks_of_a_pool_and_a_broker_only_what_they_can():
    threads = make_plan(1, tasks=10_000, broker="rabbitmq", pool="threads").faults
    assert not {"kill_child", "resize"} & {fault.name for fault in threads}
    assert {fault.how for fault in threads if fault.name == "restart_broker"} == {"stop"}
    assert sum(fault.name == "restart_broker" for fault in threads) <= 2
    assert "pops" not in {fault.how for fault in threads}
