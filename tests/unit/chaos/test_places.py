"""When a chaos run has had more tasks than places, and when that is as promised."""

from __future__ import annotations

from collections.abc import Iterator

from tests.apps.chaotic import PLACES
from tests.chaos.account import Trouble
from tests.chaos.places import above_limit, most_at_once
from tests.nodes.journal import Entry

STALLED, OTHER = "w1@chaos", "w2@chaos"


def run(number: int, began: float, ended: float, worker: str = OTHER, pid: int = 2) -> list[Entry]:
    def entry(event: str, at: float, **more: object) -> Entry:
        more = {"worker": worker, **more}
        return Entry(event, f"{number}", f"{number}", "b.late", "batch", at, pid, number, more)

    return [entry("start", began, place=f"p{number}"), entry("finish", ended)]


def found(*runs: list[Entry], troubles: tuple[Trouble, ...] = ()) -> list[str]:
    return list(above_limit(_in_order(runs), troubles))


def _in_order(runs: tuple[list[Entry], ...]) -> list[Entry]:
    return sorted((entry for one in runs for entry in one), key=lambda entry: entry.at)


def some(begin: int, began: float, ended: float, worker: str = OTHER, pid: int = 2) -> Iterator:
    return (run(begin + n, began, ended, worker, pid) for n in range(PLACES))


def test_one_more_than_there_are_places_is_a_complaint():
    assert not found(*some(0, 1.0, 2.0), *some(9, 2.0, 3.0))
    assert found(*some(0, 1.0, 2.0), run(9, 1.5, 3.0))


def test_what_began_as_its_worker_was_being_killed_ended_with_it():
    kill = Trouble("kill", STALLED, at=10.0, until=10.2)
    (start, _) = run(9, 10.1, 99.0, STALLED, pid=1)
    assert not found([start], *some(0, 11.0, 12.0), troubles=(kill,))
    assert found([start], *some(0, 11.0, 12.0))


def test_what_a_worker_ran_as_it_came_to_stand_still_goes_on_beside_others():
    stall = Trouble("stall", STALLED, at=10.0, until=23.0, pid=1)
    before = list(some(0, 9.0, 24.0, STALLED, pid=1))
    assert not found(*before, *some(9, 20.5, 23.5), troubles=(stall,))
    assert most_at_once(_in_order((*before, *some(9, 20.5, 23.5))), ()) == 2 * PLACES
    assert found(*before, run(9, 12.0, 13.0), troubles=(stall,))  # its lease can't have ended
    assert found(*before, *some(9, 20.5, 23.5), run(19, 21.0, 22.0), troubles=(stall,))


def test_what_it_begins_as_it_comes_to_itself_has_a_place_like_any_other():
    stall = Trouble("stall", STALLED, at=10.0, until=23.0, pid=1)
    assert found(*some(0, 20.5, 24.0), run(9, 23.1, 23.2, STALLED, pid=1), troubles=(stall,))


def test_a_child_that_goes_on_while_its_worker_stands_still_keeps_its_place():
    main = Trouble("stall", STALLED, at=10.0, until=23.0, pid=1)
    every = main.__class__("stall", STALLED, at=10.0, until=23.0)
    runs = [*some(0, 9.0, 24.0, STALLED, pid=11), run(9, 21.0, 22.0)]
    assert found(*runs, troubles=(main,))
    assert not found(*runs, troubles=(every,))
