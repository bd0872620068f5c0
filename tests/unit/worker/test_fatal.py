"""Which tasks end their children, in bounded memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from celery_fair.worker.fatal import KEPT, SHOWN, Fatal


def ending(id: str, **flags: bool) -> SimpleNamespace:
    flags = {"_already_revoked": False, "_already_cancelled": False, **flags}
    return SimpleNamespace(id=id, task=SimpleNamespace(name="shop.pdf"), **flags)


def ended(*ids: str) -> Fatal:
    fatal = Fatal()
    for id in ids:
        fatal.note(ending(id))
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


@pytest.mark.parametrize("flag", ["_already_revoked", "_already_cancelled"])
def test_an_end_that_somebody_asked_for_is_not_counted(flag):
    fatal = Fatal()
    fatal.note(ending("a", **{flag: True}))
    assert fatal.report() == []


def test_an_id_reaches_no_terminal_as_it_was_published():
    (one,) = ended("\x1b[2J" + "x" * 1_000).report()
    assert one["id"] == "[2J" + "x" * 124
