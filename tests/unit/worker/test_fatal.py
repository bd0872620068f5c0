"""Which tasks end their children, in bounded memory."""

from __future__ import annotations

from types import SimpleNamespace

from celery_fair.worker.fatal import KEPT, SHOWN, Fatal


def ended(*ids: str) -> Fatal:
    fatal = Fatal()
    for id in ids:
        fatal.note(SimpleNamespace(id=id, name="shop.pdf"))
    return fatal


def test_each_is_counted_and_the_most_frequent_comes_first():
    assert ended("a", "b", "b").report() == [
        {"id": "b", "task": "shop.pdf", "times": 2},
        {"id": "a", "task": "shop.pdf", "times": 1},
    ]


def test_no_more_are_kept_or_shown_than_that_and_the_latest_stay():
    fatal = ended("old", *(f"{number}" for number in range(KEPT - 1)), "old", "new")
    assert len(fatal.report()) == SHOWN
    assert fatal.report()[0] == {"id": "old", "task": "shop.pdf", "times": 2}
    fatal = ended("old", *(f"{number}" for number in range(KEPT)), "old")
    assert {one["times"] for one in fatal.report()} == {1}
