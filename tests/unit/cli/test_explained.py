"""One answer out of many: where a task is, what it waits for, and when it starts."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from celery_fair.cli import explained_waits
from celery_fair.cli.explain_json import of_kind, of_task
from celery_fair.cli.explain_many_text import show_kind, show_worker
from celery_fair.cli.explain_text import show_task
from celery_fair.cli.explained import explain_task
from celery_fair.cli.explained_kind import explain_kind
from celery_fair.cli.explanation import Said
from celery_fair.cli.seen import Look, Seen
from celery_fair.observe.place import Place
from celery_fair.policy.waiting import Reason
from tests.unit.cli.explained import NOW, kind, pause, report, task

PROTECTED = kind("celery.batch", why=Reason.GATE_PROTECTED, running=2)
ID = "an-id"


def explain(reports=(), seen=None, backend=None, lengths=(), **said):
    look = Look(seen, ["7 messages"], dict(lengths), is_readable=True, is_complete=True)
    return explain_task(ID, Said(dict(reports), **said), look, backend, NOW)


def at_broker(queue="celery.batch", before=0, **changes):
    return Seen(Place.BROKER, queue, before, task="shop.summarize", kind="batch", **changes)


def reasons(found):
    return [wait.reason for wait in found.waits]


# in a worker


def test_held_it_waits_for_what_its_kind_waits_for_there_and_for_its_turn():
    worker = report(PROTECTED, task=task("held", nth=3, of=4))
    found = explain({"w1": worker, "w2": report()})
    assert (found.place, found.worker) == (Place.HELD, "w1")
    assert reasons(found) == [Reason.GATE_PROTECTED, Reason.IN_LINE]
    assert found.waits[0].text == (
        "gate protected for 12 s (when it closed: interactive backlog beyond free slots 43 > 16); "
        "batch has 2 of the 2 it may have meanwhile"
    )
    assert found.estimate.before == 2
    assert found.estimate.possible_rate == 1.0


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (Reason.SLOTS_TAKEN, "no free slot for 3.0 s: 8 of 8 running (6 interactive, 2 batch)"),
        (Reason.INTERACTIVE_FIRST, "interactive tasks first for 3.0 s: 43 wait; 8 of 8 running"),
        (Reason.RESERVE, "free slots kept in reserve for 3.0 s: 8 of 8 running"),
        (Reason.FLEET_RESERVE, "free slots kept for the fleet's reserve for 3.0 s"),
        (Reason.CEILING, "the kind at its ceiling for 3.0 s: it has 2 of 8 slots"),
        (Reason.ENGINE, "the engine behind the tasks queues for 3.0 s; batch has what it is owed"),
        (Reason.JOINING, "worker joining its fleet for 3.0 s"),
        (Reason.NO_CREDIT, "worker holding all it may for 3.0 s"),
        (Reason.ASKING, "waiting for the broker's word"),
        (Reason.ARRIVING, "on its way for 3.0 s"),
    ],
)
def test_each_reason_of_a_worker_is_a_sentence_with_its_figures(why, text):
    batch = kind("celery.batch", why=why, running=2)
    found = explain({"w1": report(batch, task=task("held", nth=1, of=1))})
    assert reasons(found) == [why]
    assert found.waits[0].text.startswith(text)


def test_a_pause_comes_before_all_that_the_policy_says():
    worker = report(PROTECTED, steering=pause(), task=task("held", nth=1, of=1))
    found = explain({"w1": worker})
    assert reasons(found) == [Reason.PAUSED]
    assert found.waits[0].text == "batch was paused by ann@desk 60 s ago"
    assert found.no_estimate == "it is paused"


def test_of_a_pause_in_several_workers_it_is_said_by_whom_too():
    waits = explained_waits.reasons(
        "batch", "celery.batch", {name: report(steering=pause()) for name in ("w1", "w2")}, NOW
    )
    assert [wait.text for wait in waits] == ["batch was paused by ann@desk 60 s ago (w1, w2)"]
    other = {"paused": [{**pause()["paused"][0], "by": "bob@desk"}], "draining": None}
    waits = explained_waits.reasons(
        "batch", "celery.batch", {"w1": report(steering=pause()), "w2": report(steering=other)}, NOW
    )
    assert [wait.text for wait in waits] == ["paused (w1, w2)"]


def test_a_pause_of_another_queue_or_kind_is_none():
    for steering in (pause("nightly"), pause(kind="interactive")):
        worker = report(PROTECTED, steering=steering, task=task("held", nth=1, of=1))
        assert reasons(explain({"w1": worker})) == [Reason.GATE_PROTECTED]


def test_a_worker_that_ends_starts_nothing():
    found = explain({"w1": report(PROTECTED, stopping=True, task=task("held", nth=1, of=1))})
    assert reasons(found) == [Reason.STOPPING]


def test_it_is_being_failed():
    found = explain({"w1": report(task=task("timing_out"))})
    assert (found.place, reasons(found)) == (Place.TIMING_OUT, [Reason.TIMING_OUT])
    assert found.no_estimate == "it will not run"


def test_where_it_runs_is_believed_before_where_it_waits_or_has_ended():
    ended = report(task=task("ended", outcome="retried", at=NOW - 1))
    waits = report(PROTECTED, task=task("held", nth=1, of=1))
    runs = report(task=task("running", started_at=NOW - 5))
    assert explain({"a": ended, "b": waits, "c": runs}).worker == "c"
    assert explain({"a": ended, "b": waits}).worker == "b"
    assert explain({"a": ended}).worker == "a"


def test_the_copy_of_another_was_dropped():
    found = explain({"w1": report(task=task("dropped", outcome="duplicate", at=NOW - 1))})
    assert reasons(found) == [Reason.DUPLICATE]


# at the broker


def test_workers_with_the_same_reason_are_told_together_the_most_first():
    taken = kind("celery.batch", why=Reason.SLOTS_TAKEN, running=2)
    nodes = {f"w{number:04}": report(PROTECTED) for number in range(998)}
    found = explain({**nodes, "x1": report(taken), "x2": report(taken)}, at_broker())
    assert [wait.text for wait in found.waits] == [
        "gate protected (w0000, w0001, w0002 and 995 others)",
        "no free slot (x1, x2)",
    ]


def test_where_one_worker_is_free_that_counts_and_not_the_many_that_are_not():
    free = kind("celery.batch", why=Reason.ARRIVING)
    found = explain(
        {"a": report(PROTECTED), "b": report(PROTECTED), "c": report(free)}, at_broker()
    )
    assert reasons(found) == [Reason.ARRIVING, Reason.GATE_PROTECTED]


def test_what_is_before_it_in_its_queue_and_in_the_front_and_held_counts():
    batch = kind("celery.batch", why=Reason.SLOTS_TAKEN, held=3, started_a_second=2.0)
    found = explain({"w1": report(batch)}, at_broker(before=81, in_front=1))
    assert reasons(found) == [Reason.SLOTS_TAKEN, Reason.FRONT_FIRST, Reason.IN_LINE]
    assert found.waits[2].text == "80 before it in celery.batch"
    assert found.estimate.before == 84
    assert found.estimate.counted_rate == 2.0


def test_one_in_the_front_is_served_by_those_who_serve_the_queue():
    found = explain({"w1": report(PROTECTED)}, at_broker("celery.batch.front"))
    assert reasons(found) == [Reason.GATE_PROTECTED]


def test_nobody_consumes_its_queue():
    found = explain({"w1": report(PROTECTED)}, at_broker("nightly"))
    assert reasons(found) == [Reason.NO_CONSUMER]


def test_nobody_answers():
    assert reasons(explain({}, at_broker())) == [Reason.NO_ANSWER]


def test_its_queue_is_paused_and_so_nobody_consumes_it():
    found = explain({"w1": report(PROTECTED, steering=pause("nightly"))}, at_broker("nightly"))
    assert reasons(found) == [Reason.PAUSED]
    assert "nightly was paused by ann@desk" in found.waits[0].text


def test_only_a_worker_without_celery_fair_takes_from_its_queue():
    said = {"silent": {"p": "plain"}, "plain_queues": {"p": frozenset(["nightly"])}}
    found = explain({}, at_broker("nightly"), **said)
    assert reasons(found) == [Reason.PLAIN_WORKER]
    assert found.no_estimate.startswith("a worker without celery-fair")


def test_its_time_comes_before_all_else():
    found = explain({"w1": report(PROTECTED)}, at_broker(eta=NOW + 60))
    assert reasons(found) == [Reason.ETA, Reason.GATE_PROTECTED]
    assert found.no_estimate == "not before its time"


def test_given_out_to_a_worker_that_does_not_answer():
    seen = Seen(Place.UNACKNOWLEDGED, "celery.batch", delivered_at=NOW - 9, back_at=NOW + 51)
    found = explain({"w1": report()}, seen)
    assert (found.place, reasons(found)) == (Place.UNACKNOWLEDGED, [Reason.NO_ANSWER])
    held = explain({"w1": report(PROTECTED, task=task("held", nth=1, of=1))}, seen)
    assert held.place is Place.HELD, "it is the one that answers who has it"


def test_only_the_result_backend_knows():
    found = explain({"w1": report()}, backend={"state": "SUCCESS", "at": "2027-01-15"})
    assert found.place is Place.ENDED
    assert not explain({"w1": report()}, backend={"state": "STARTED", "at": None}).is_found


def test_nobody_knows():
    found = explain({"w1": report(), "w2": report()})
    assert not found.is_found
    assert found.looked == ["2 workers that answered", "7 messages"]
    assert explain({"w1": report()}, lengths={"celery": 7}).perhaps == [], "all 7 were looked at"


def test_what_no_worker_has_noticed_yet_is_on_its_way():
    assert reasons(explain({"w1": report()}, at_broker())) == [Reason.ARRIVING]
    assert reasons(explain({"w1": report(task=task("held", nth=1, of=1))})) == [Reason.ARRIVING]


def test_words_of_a_newer_version_are_passed_over():
    batch = {**kind("celery.batch"), "why": "tenants_turn"}
    assert reasons(explain({"w1": report(batch)}, at_broker())) == [Reason.ARRIVING]
    assert not explain({"w1": report(task=task("in_orbit"))}).is_found


def test_on_a_broker_that_shows_nothing_the_length_of_its_queue_is_the_bound():
    look = Look(None, ["the length of 2 queues"], {"celery.batch": 43, "celery": 0})
    found = explain_task(ID, Said({"w1": report(PROTECTED)}), look, None, NOW)
    assert not found.is_found
    assert found.perhaps == ["in celery.batch, where 43 wait (gate protected)"]
    assert "perhaps in celery.batch, where 43 wait" in " ".join(text_of(show_task, found).split())


def test_a_lane_is_its_queues_whatever_kind_a_message_says():
    interactive = kind("celery", why=Reason.SLOTS_TAKEN, running=8)
    found = explain({"w1": report(PROTECTED, interactive)}, at_broker("celery"))
    assert reasons(found) == [Reason.SLOTS_TAKEN]


def test_a_worker_that_can_not_name_all_its_queues_may_serve_this_one():
    batch = kind("celery.batch", why=Reason.GATE_PROTECTED, running=2, queues_left_out=900)
    assert reasons(explain({"w1": report(batch)}, at_broker("q950"))) == [Reason.GATE_PROTECTED]


# a kind


def test_a_kind_has_its_backlog_once_however_many_workers_count_it():
    part = kind("celery.batch", why=Reason.SLOTS_TAKEN, held=2, ready={"celery.batch": 40})
    found = explain_kind("batch", Said({"a": report(part), "b": report(part)}), NOW)
    assert (found.ready, found.held, found.waiting) == (40, 4, 44)
    assert found.estimate.before == 44
    assert found.waits[0].text == "no free slot (a, b)"


@pytest.mark.parametrize(
    ("capped", "reason", "words"),
    [
        (False, Reason.TENANT_TURN, "acme has had 12 s of slots more, by weight; 1 other tenant"),
        (True, Reason.TENANT_CAP, "its tenant at its cap: acme runs 4 there"),
    ],
)
def test_a_task_of_a_tenant_whose_turn_it_isnt_says_so(capped, reason, words):
    turn = {"tenant": "acme", "others": 1, "ahead_seconds": 12.0, "running": 4, "is_capped": capped}
    batch = kind("celery.batch", why=Reason.SLOTS_TAKEN, held=3)
    found = explain({"w1": report(batch, task=task("held", nth=3, of=3, turn=turn))})
    assert reasons(found) == [Reason.SLOTS_TAKEN, reason, Reason.IN_LINE]
    assert words in found.waits[1].text


def test_the_oldest_of_a_kind_is_held_or_first_in_line_at_the_broker():
    held = report(kind("celery.batch", oldest_ready_at=NOW - 20))
    assert explain_kind("batch", Said({"a": held}), NOW).oldest_ready_at == NOW - 20
    assert explain_kind("batch", Said({"a": held}), NOW, NOW - 50).oldest_ready_at == NOW - 50
    assert explain_kind("batch", Said({"a": report()}), NOW).oldest_ready_at is None


def test_the_latest_changes_of_all_gates_are_told_the_latest_first():
    nodes = {
        f"w{number}": report(changes=[[NOW - number, "open", "empty", "nothing waits"]])
        for number in range(9)
    }
    found = explain_kind("batch", Said(nodes), NOW)
    assert [node for node, _ in found.changes] == ["w0", "w1", "w2"]
    assert "open on w1: nothing waits" in text_of(show_kind, found)
    json.dumps(of_kind(found))


def test_of_a_kind_whose_queue_is_paused_the_pause_is_told():
    found = explain_kind("batch", Said({"a": report(kind(), steering=pause("nightly"))}), NOW)
    assert found.ready is None, "what waits there nobody has counted"
    assert found.waits[0].text == "nightly was paused by ann@desk 60 s ago"
    assert found.no_estimate == "it is paused"
    found = explain_kind("batch", Said({"a": report(kind(), steering=pause())}), NOW)
    assert [wait.reason for wait in found.waits] == [Reason.PAUSED], "and its only queue beside it"
    served = kind("celery.batch", why=Reason.SLOTS_TAKEN)
    found = explain_kind("batch", Said({"a": report(served, steering=pause("nightly"))}), NOW)
    assert [wait.reason for wait in found.waits] == [Reason.SLOTS_TAKEN, Reason.PAUSED]
    found = explain_kind("batch", Said({"a": report(served, steering=pause())}), NOW)
    assert [wait.reason for wait in found.waits] == [Reason.PAUSED]


def test_a_kind_that_nobody_serves():
    found = explain_kind("batch", Said({"a": report(kind())}), NOW)
    assert found.waits[0].reason is Reason.NO_CONSUMER


# as text and as JSON


def text_of(show, *args):
    console = Console(file=io.StringIO(), width=80, no_color=True, highlight=False)
    show(console, *args, NOW)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    return "\n".join(lines)


WAITED = {
    "seconds": 12.9,
    "by": {"gate_protected": 9.1, "slots_taken": 3.2},
    "unknown_seconds": 0.6,
    "running_interactive": 6.0,
    "running_batch": 2.0,
    "gate_reason": "interactive backlog beyond free slots 43 > 16",
}


def test_the_first_line_is_the_answer_and_the_rest_says_why():
    worker = report(PROTECTED, task=task("held", nth=3, of=4, waited=WAITED))
    text = text_of(show_task, explain({"w1": worker}))
    assert text.splitlines()[0] == "an-id waits in w1, 3rd in line of 4 batch tasks held there"
    together = " ".join(text.split())
    assert (
        "waited 13 s: 9.1 s gate protected (interactive backlog beyond free slots 43 > 16), "
        "3.2 s no free slot, 600 ms for what nobody noted; meanwhile 6 interactive and 2 batch "
        "ran on average"
    ) in together
    assert "starts in 1.3 s to 4.7 s: 2 before it" in together


def test_one_that_has_yielded_says_so_wherever_it_is():
    waits = explain(seen=at_broker("celery.batch.front", yields=3))
    runs = explain({"w1": report(task=task("running", yields=1))})
    out_of_sight = explain({"w1": report(task=task("ended", at=NOW - 3, outcome="yielded"))})
    told = [" ".join(text_of(show_task, one).split()) for one in (waits, runs, out_of_sight)]
    assert "yielded 3 times; it goes on from where it was then" in told[0]
    assert "yielded 1 time; it goes on" in told[1]
    assert "yielded it gave its slot to interactive tasks; the rest of it waits" in told[2]
    assert "yielded" not in text_of(show_task, explain(seen=at_broker()))


def test_a_hostile_name_moves_no_terminal():
    worker = report(task=task("running", started_at=NOW - 5, task="\x1b[2J[red]x", queue="a\nb"))
    text = text_of(show_task, explain({"w\x1b1": worker}))
    assert "\x1b" not in text
    assert "[red]x" in text


@pytest.mark.parametrize("place", list(Place))
def test_each_place_is_a_sentence(place):
    found = explain({"w1": report()})
    found.place, found.worker = place, None if place is Place.UNKNOWN else "w1"
    found.task = task(place.value, at=NOW - 2, nth=1, of=1, outcome="failed", delivered_at=NOW - 9)
    assert text_of(show_task, found)
    json.dumps(of_task(found))


def test_a_kind_and_a_worker_fit_into_80_columns():
    part = kind("celery.batch", why=Reason.SLOTS_TAKEN, held=2, ready={"celery.batch": 40})
    found = explain_kind("batch", Said({"a": report(part)}, silent={"p": "plain"}), NOW)
    assert text_of(show_kind, found).startswith("batch: 42 wait (40 at the broker, 2 held), 0 run")
    json.dumps(of_kind(found))
    recent = {
        "at": NOW - 3, "id": "an-id", "task": "shop.summarize", "kind": "batch",
        "outcome": "succeeded", "wait_seconds": 1.2, "run_seconds": 3.0, "mode": "open",
    }  # fmt: skip
    changes = [[NOW - 12, "protected", "backlog", "interactive backlog 43 > 16"]]
    text = text_of(show_worker, "w1", report(PROTECTED, recent=[recent], changes=changes))
    assert "shop.summarize[an-id] succeeded, waited 1.2 s, ran 3.0 s" in text
    assert "812 tasks, 3 forgotten" in text
