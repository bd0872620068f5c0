"""The fleet: whose words count, for how long, and what they add up to."""

from __future__ import annotations

import json

import pytest

from celery_fair.policy import Member
from celery_fair.worker.fleet import FORGOTTEN_SECONDS, LOST_AFTER, MAX_WORD, Fleet

QUEUES = ["celery", "celery.batch"]


def _member(name: str, slots: int = 1, interactive: int = 0, batch: int = 0) -> Member:
    defaults = {
        "name": name,
        "slots": slots,
        "running_interactive": interactive,
        "running_batch": batch,
    }
    fields = {field: defaults.get(field, 0.0) for field in Member.__dataclass_fields__}
    return Member(**fields)


class _Town:
    """Some fleets that hear each other through one board, as through Redis's hash."""

    def __init__(self, *names: str, queues: list[str] = QUEUES) -> None:
        self.board: dict[str, str] = {}
        self.fleets = {name: Fleet(name) for name in names}
        self.queues = queues

    def speak(self, *names: str, **member: int) -> None:
        for name in names or self.fleets:
            self.board[name] = self.fleets[name].word(_member(name, **member), self.queues)

    def view(self, name: str, now: float, **member: int):
        self.fleets[name].hear(self.board, now)
        return self.fleets[name].view(_member(name, **member), now)


def test_members_add_up():
    town = _Town("a", "b", "c")
    town.speak(slots=2, batch=1)
    view = town.view("b", 0.0, slots=2, batch=2)
    assert (view.workers, view.slots, view.running_batch) == (3, 6, 4)


def test_each_member_has_its_own_place_in_the_line_whoever_looks():
    town = _Town("a", "b", "c")
    town.speak(slots=2)
    assert [town.view(name, 0.0, slots=2).slots_before for name in "abc"] == [0, 2, 4]


def test_a_worker_whose_own_words_do_not_come_back_has_no_view():
    town = _Town("a", "b")
    town.speak("b")
    assert town.view("a", 0.0) is None


def test_a_worker_that_has_not_heard_itself_for_long_has_no_view():
    town = _Town("a")
    town.speak()
    assert town.view("a", 0.0) is not None
    assert town.view("a", LOST_AFTER + 0.1) is None


@pytest.mark.parametrize("heard_before", [0.5, 1.0, 2.5])
def test_where_no_words_are_heard_any_more_nobody_leaves_the_view_before_it_is_lost(heard_before):
    """The others were heard a while before its own: they'd be silent for too long a while sooner.

    And what is seen last is what is held on to, for as long as nobody is in sight.
    """
    town = _Town("a", "b", "c")
    town.speak()
    town.view("a", 10.0 - heard_before)
    town.speak("a")
    town.view("a", 10.0)
    seen = [town.fleets["a"].view(_member("a"), 10.0 + 0.1 * tenth) for tenth in range(60)]
    assert seen[-1] is None
    assert {view.workers for view in seen if view is not None} == {3}


def test_a_word_that_repeats_itself_is_silence():
    """A dead member's last word stays in Redis; only a new one shows that it lives."""
    town = _Town("a", "b")
    town.speak()
    for second in range(1, LOST_AFTER + 2):
        town.speak("a")
        view = town.view("a", float(second))
        assert view.workers == (2 if second <= LOST_AFTER + 1 else 1)
    town.speak("a")
    assert town.view("a", LOST_AFTER + 2.1).workers == 1


def test_what_a_dead_member_was_thought_to_run_is_not_paid():
    """Silent for as long as it takes to be missed, it would have kept its guaranteed slots busy."""
    town = _Town("a", "b", "c")
    town.speak(slots=2, batch=2)
    assert town.view("a", 0.0).unpaid_batch_seconds == 0.0
    town.board["c"] = ""  # took leave
    town.speak("a")
    view = town.view("a", LOST_AFTER + 1.0)
    assert view.workers == 1
    assert view.unpaid_batch_seconds == 2 * (LOST_AFTER + 1.0)
    assert town.view("a", LOST_AFTER + 1.5).unpaid_batch_seconds == 0.0


def test_a_member_that_speaks_again_counts_again():
    town = _Town("a", "b")
    town.speak()
    town.view("a", 0.0)
    town.speak("a")
    assert town.view("a", 10.0).workers == 1
    town.speak()
    assert town.view("a", 11.0).workers == 2


def test_members_of_other_queues_are_another_fleet():
    town = _Town("a", "b")
    town.speak("a")
    town.board["b"] = town.fleets["b"].word(_member("b"), ["celery"])
    assert town.view("a", 0.0).workers == 1


def test_what_a_member_says_to_publishers_parts_nobody():
    town = _Town("a", "b")
    town.speak("a")
    town.board["b"] = town.fleets["b"].word(_member("b"), QUEUES, uncleared={"batch": 64})
    assert town.view("a", 0.0).workers == 2


def test_the_order_of_queues_does_not_part_a_fleet():
    town = _Town("a", "b")
    town.speak("a")
    town.board["b"] = town.fleets["b"].word(_member("b"), reversed(QUEUES))
    assert town.view("a", 0.0).workers == 2


def test_a_member_that_takes_leave_is_gone_at_once():
    town = _Town("a", "b")
    town.speak()
    town.view("a", 0.0)
    del town.board["b"]
    assert town.view("a", 0.1).workers == 1


def test_words_of_another_version_or_no_words_at_all_are_not_counted():
    town = _Town("a")
    town.speak()
    word = json.loads(town.board["a"])
    town.board |= {
        "newer": json.dumps({**word, "new_field": 1}),
        "older": json.dumps({"queues": word["queues"], "sequence": 1}),
        "noise": "\x00not json",
        "list": "[1, 2]",
        "number": "7",
        "long": json.dumps({**word, "pad": "x" * MAX_WORD}),
    }
    assert town.view("a", 0.0).workers == 1


def test_each_member_is_known_with_its_orders_or_without_any_whatever_it_serves():
    fleet, others = Fleet("a"), Fleet("b")
    words = {"a": fleet.word(_member("a"), QUEUES, "7:abc"), "b": others.word(_member("b"), ["x"])}
    fleet.hear(words, 0.0)
    assert fleet.versions == {"a": "7:abc", "b": ""}
    fleet.hear({"a": words["a"]}, 1.0)
    assert fleet.versions == {"a": "7:abc"}


def test_a_member_that_changes_its_queues_leaves_the_fleet():
    town = _Town("a", "b")
    town.speak()
    assert town.view("a", 0.0).workers == 2
    town.board["b"] = town.fleets["b"].word(_member("b"), ["celery"])
    assert town.view("a", 0.5).workers == 1


def test_names_that_were_silent_for_long_are_told_to_be_removed():
    town = _Town("a", "b")
    town.speak()
    town.view("a", 0.0)
    town.speak("a")
    town.view("a", FORGOTTEN_SECONDS + 0.5)
    assert town.fleets["a"].silent(FORGOTTEN_SECONDS + 1.0, FORGOTTEN_SECONDS) == ["b"]


def test_where_words_are_only_heard_nobody_is_gone_until_it_says_so():
    fleet = Fleet("a")
    me = Member("a", 1, 0, 0)
    own = fleet.word(me, QUEUES)
    fleet.hear({"a": own, "b": own.replace('"sequence": 1', '"sequence": 7')}, 1.0, complete=False)
    fleet.hear({"a": fleet.word(me, QUEUES)}, 1.5, complete=False)
    assert fleet.view(me, 1.5).workers == 2
    fleet.hear({"b": ""}, 2.0, complete=False)
    assert fleet.view(me, 2.0).workers == 1


def test_two_hundred_queues_with_long_names_are_one_fleet():
    town = _Town("a", "b", queues=[f"a.rather.long.name.of.a.queue.{n}" for n in range(200)])
    town.speak()
    assert town.view("a", 0.0).workers == 2
    assert max(map(len, town.board.values())) < 300


def test_a_larger_fleet_speaks_less_often():
    town = _Town(*(f"w{number}" for number in range(200)))
    town.speak()
    town.view("w0", 0.0)
    assert town.fleets["w0"].say_seconds == 4.0


@pytest.mark.parametrize(
    ("members", "bears", "seconds"),
    [(4, 10_000, 1.0), (100, 10_000, 2.0), (1000, 10_000, 100.0), (1000, 50_000, 20.0)],
)
def test_a_fleet_speaks_no_oftener_than_its_broker_bears(members, bears, seconds):
    fleet = Fleet("a")
    fleet.words_a_second = bears
    assert fleet.say_seconds_of(members) == seconds
    assert members * members / fleet.say_seconds_of(members) <= bears


NONSENSE = [
    '"slots": null',
    '"slots": "4"',
    '"slots": Infinity',
    '"slots": -1',
    '"interactive_rate": NaN',
]


@pytest.mark.parametrize("harm", NONSENSE)
def test_a_word_that_says_nonsense_is_no_member_and_harms_nobody(harm):
    fleet = Fleet("a")
    me = Member("a", 1, 0, 0)
    own = fleet.word(me, ["q"])
    foreign = own[:-1] + ", " + harm + "}"
    fleet.hear({"a": own, "b": foreign, "c": "[" * 4000, "d": 7}, 1.0)
    assert fleet.view(me, 1.0).workers == 1


def test_a_word_tells_which_orders_are_known_also_to_other_fleets():
    here, elsewhere = Fleet("a"), Fleet("b")
    here.word(_member("a"), QUEUES)
    board = {
        "a": here.word(_member("a"), QUEUES, "7:abc"),
        "b": elsewhere.word(_member("b"), ["others"], "8:def"),
        "c": Fleet("c").word(_member("c"), QUEUES),
    }
    here.hear(board, 0.0)
    assert here.versions == {"a": "7:abc", "b": "8:def", "c": ""}
    view = here.view(_member("a"), 0.0)
    assert view.workers == 2, "the one that serves other queues counts for nothing else"
    here.hear({"a": board["a"]}, 1.0)
    assert here.versions == {"a": "7:abc"}


@pytest.mark.parametrize("orders", [5, None, ["7:abc"], {"a": 1}, "x" * 1000])
def test_a_version_that_is_none_harms_nothing(orders):
    town = _Town("a", "b")
    town.speak()
    spoken = json.loads(town.board["b"])
    town.board["b"] = json.dumps({**spoken, "orders": orders})
    assert town.view("a", 0.0).workers == 2
    assert set(town.fleets["a"].versions.values()) == {""}
