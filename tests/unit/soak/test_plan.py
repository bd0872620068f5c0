"""The plan of a soak: the same for the same seed, with all that is asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.soak.plan import LASTING, RECYCLED, make_plan

SECONDS = 4 * 60.0


def plan(seed=1, name="b", pool="prefork"):
    return make_plan(seed, name, SECONDS, pool)


def test_the_plan_is_a_function_of_the_seed():
    assert plan() == plan()
    assert plan().calls != plan(seed=2).calls


def test_two_stretches_share_no_task():
    ids = [one for name in ("a", "b") for call in plan(name=name).calls for one in call.ids]
    assert len(set(ids)) == len(ids)


def test_every_kind_of_call_comes_many_times():
    calls = plan().calls
    names = Counter(call.name for call in calls)
    for kind in ("i", "b"):
        for ack in ("early", "late"):
            for form in ("", ".retrying", ".limited", ".failing"):
                assert names[f"{kind}.{ack}{form}"] > 10
    assert sum(call.size > 1 for call in calls) > 20
    assert sum(call.countdown > 0 for call in calls) > 100


def test_what_is_done_to_workers_is_over_when_the_stretch_is():
    """Only one of them is ever stopped: the memory of the other is judged."""
    acts = plan().acts
    counts = Counter((act.name, act.worker) for act in acts)
    assert counts["recycle", RECYCLED] == 4
    assert counts["recycle", LASTING] == 0
    assert counts["cut", LASTING] + counts["cut", RECYCLED] == 4
    assert sum(act.slots for act in acts) == 0
    assert [act.at for act in acts] == sorted(act.at for act in acts)
    assert acts[-1].at < SECONDS - 5


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_pools_that_cannot_be_resized_are_not(pool):
    assert not any(act.name == "resize" for act in plan(pool=pool).acts)
