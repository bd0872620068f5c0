"""The frames of `fair top`, as they stand on the screen."""

from __future__ import annotations

import io
import time
from itertools import product
from pathlib import Path

import pytest
from rich.console import Console

from celery_fair.cli.top_signs import HEIGHTS, slots_of, sparkline, strip
from celery_fair.cli.top_view import LEGEND, Frame
from celery_fair.cli.top_watch import still
from celery_fair.observe.counts import BOUNDS
from celery_fair.policy.idle import Idle
from tests.unit.cli.replies import NOW, kind, report, wait
from tests.unit.cli.test_top_watch import Site, histogram
from tests.unit.observe.workers import resource


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def drawn(picture, width=80, height=24) -> list[str]:
    """The rows of a screen, without the empty space on the right and below."""
    console = Console(width=width, height=height, file=io.StringIO())
    options = console.options.update(width=width, height=height)
    lines = console.render_lines(Frame(picture), options, pad=False)
    rows = ["".join(segment.text for segment in line).rstrip() for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def busy(number=0, **changes):
    """A worker under load, after so many rounds of tasks."""
    interactive = kind("celery", running=2, held=1, ready={"celery": 3})
    batch = kind("celery.batch", running=3, held=4, ready={"celery.batch": 1230}, rate_limited=2)
    interactive["waits"] = {"buckets": histogram(b4=number * 20)}
    batch["waits"] = {"buckets": histogram(b11=number * 10)}
    batch["scheduled"] = 7
    slots = {"total": 8, "reserve": 1, "idle_seconds": {"reserve": number * 1.5}}
    gate = {
        "mode": "protected",
        "since": NOW - 12,
        "reason": "interactive backlog beyond free slots 29 > 10",
        "blind": False,
    }
    share = {"guaranteed": 0.2, "received": 0.24}
    told = {"gate": gate, "slots": slots, "share": share, **changes}
    return report(interactive, batch, **told)


def watched(rounds=20, seconds=5, **workers):
    site = Site()
    for number in range(rounds):
        told = {name: make(number) for name, make in workers.items()}
        site.tell(1000.0 + number * seconds, every=seconds, **told)
    return site.picture(1000.0 + (rounds - 1) * seconds)


def quiet(number=0):
    return report()


def test_one_worker_at_80_columns():
    assert drawn(watched(w1=busy)) == [
        "fair top   1 worker, 8 slots   gates: 1 protected                       08:00:00",
        "            running  held     ready   ETA limited wait p95 p95, last 3.5 min",
        "interactive       2     1         3     0       0    24 ms            ▂▂▂▂▂▂▂▂▂▂",
        "batch             3     4     1\N{NO-BREAK SPACE}230     7       2    4.9 s"
        "            ▅▅▅▅▅▅▅▅▅▅",
        "slots       IIBBBr..  2 interactive, 3 batch, 1 kept in reserve, 2 free",
        "batch share received 24 %, guaranteed 20 %; last start 3.0 s ago",
        "idle slots  0.3 reserve (while something waits)",
        "",
        "w1  gate protected 12 s  interactive backlog beyond free slots 29 > 10",
        "IIBBBr..         interactive   1 held    24 ms   ▂▂▂▂▂▂▂▂▂▂    idle 0.3: reserve",
        "                 batch         4 held    4.9 s   ▅▅▅▅▅▅▅▅▅▅   got 24 %, due 20 %",
        "I interactive  B batch  r free, kept in reserve  . free   q quits",
    ]


def test_two_workers_at_140_columns():
    rows = drawn(watched(w1=quiet, w2=busy), width=140)
    assert rows[0].startswith("fair top   2 workers, 16 slots   gates: 1 open, 1 protected   ")
    assert len(rows[0]) == 140
    assert rows[8:15] == [
        "w2  gate protected 12 s  interactive backlog beyond free slots 29 > 10",
        "IIBBBr..         interactive   1 held    24 ms"
        + " " * 51
        + "▂" * 10
        + " " * 16
        + "idle 0.3: reserve",
        "                 batch         4 held    4.9 s"
        + " " * 51
        + "▅" * 10
        + " " * 15
        + "got 24 %, due 20 %",
        "",
        "w1  gate open 60 s  nothing interactive waits",
        "rr......         interactive   0 held        –",
        "                 batch         0 held        –" + " " * 76 + "got 50 %, due 20 %",
    ]


def fleet(number, height=24, width=80):
    workers = {f"celery@worker-{n:03}": busy if n % 10 == 7 else quiet for n in range(number)}
    return drawn(watched(rounds=3, **workers), width=width, height=height)


def test_more_workers_than_fit_as_blocks_have_a_line_each():
    rows = fleet(6)
    assert rows[7:] == [
        "worker             slots            gate                I p95    B p95 held I/B",
        *(
            f"celery@worker-00{n}  rr......         open 60 s               –        –      0/0"
            for n in range(6)
        ),
        "I interactive  B batch  r free, kept in reserve  . free   q quits",
    ]


def test_of_100_workers_the_worst_are_shown_and_the_rest_is_summed_up():
    rows = fleet(100)
    assert len(rows) == 24
    assert rows[0].startswith("fair top   100 workers, 800 slots   gates: 90 open, 10 protected")
    assert rows[9] == (
        "celery@worker-007  IIBBBr..         protected 12 s      24 ms    4.9 s      1/4"
    )
    assert "≤" not in rows[2]  # it is the p95 of all, and no mere bound of it
    assert rows[7] == (
        "shut gate   interactive backlog beyond free slots 29 > 10 (celery@worker-007)"
    )
    shown = [row for row in rows if row.startswith("celery@")]
    assert [row[14:17] for row in shown] == [
        "007", "017", "027", "037", "047", "057", "067", "077", "087", "097", "000", "001", "002",
    ]  # fmt: skip
    assert rows[22] == (
        "and 87 more: 0 interactive, 0 batch, 696 free; 0 not open; I p95 up to 0 ms"
    )


def test_in_a_wide_list_there_is_the_reason_of_the_gate():
    rows = fleet(100, width=140)
    assert rows[8].endswith("held I/B reason of the gate")
    assert rows[9].endswith("1/4 interactive backlog beyond free slots 29 > 10")


def test_the_end_of_a_long_name_is_kept_since_there_they_differ():
    names = [f"celery@default-workers-6f7c9b5d4-{n}" for n in "abcdef"]
    rows = drawn(watched(rounds=2, **dict.fromkeys(names, quiet)))
    assert [row.split()[0] for row in rows[8:14]] == [f"…rkers-6f7c9b5d4-{n}" for n in "abcdef"]


def test_no_worker_is_a_frame_with_its_note():
    rows = drawn(Site().picture(0.0, notes=["No worker with celery-fair is heard of."]))
    assert rows[0].split() == ["fair", "top", "08:00:00"]
    assert rows[1] == "! No worker with celery-fair is heard of."
    assert len(rows) == 3


def test_a_printed_frame_has_every_worker_and_the_waits_that_they_tell():
    waits = wait(p95=0.25)
    reports = {f"w{n:02}": report(kind("celery", wait_seconds=waits), kind()) for n in range(40)}
    out = io.StringIO()
    Console(width=80, height=24, file=out).print(Frame(still(reports, NOW)))
    text = out.getvalue()
    assert all(f"w{n:02} " in text for n in range(40))
    assert "≤ 250 ms" in text
    assert "(batch)" in text
    assert "waits: last 5 min" in text


def test_a_backlog_that_can_not_be_read_is_unknown():
    blind = {**report()["gate"], "blind": True}
    told = report(kind("celery", ready=None), gate=blind)
    rows = drawn(still({"w1": told}, NOW))
    assert rows[2].split()[3] == "unknown"
    assert "queues can't be read; nothing interactive waits" in "\n".join(rows)


def test_a_worker_that_only_observes_says_so():
    assert "w1  gate observing 60 s" in "\n".join(drawn(still({"w1": report(mode="observe")}, NOW)))


@pytest.mark.parametrize("number", [0, 1, 3, 60])
def test_nothing_is_ever_larger_than_the_screen(number):
    long = "x" * 200
    gate = {**report()["gate"], "reason": long, "mode": long}
    share = {"guaranteed": 0.2, "received": None}
    many = kind(long, running=10**9, held=10**9, ready={long: 10**11}, wait_seconds=wait(p95=1e9))
    told = report(many, many, gate=gate, share=share, slots={"total": 10**11, "reserve": 10**9})
    picture = still({f"{long}{n}東京": told for n in range(number)}, NOW)
    for width, height in product((1, 10, 39, 80, 81, 140, 400), (1, 2, 8, 10, 24, 60)):
        console = Console(width=width, height=height, file=io.StringIO())
        options = console.options.update(width=width, height=height)
        lines = console.render_lines(Frame(picture), options, pad=False)
        printed = [line for line in lines if "".join(s.text for s in line).strip()]
        assert len(printed) <= height
        assert all(sum(segment.cell_length for segment in line) <= width for line in lines)


def test_no_sequence_of_a_hostile_name_or_reason_is_written():
    bad = "\x1b[2J\x1b]0;owned\x07\r\n\u202e"
    gate = {**report()["gate"], "reason": bad, "mode": f"open{bad}"}
    told = report(kind(bad), gate=gate, version=bad)
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None, no_color=True)
    console.print(Frame(still({f"w{bad}": told}, NOW)))
    written = out.getvalue()
    assert "\x1b[2J" not in written
    assert "\x07" not in written
    assert "\u202e" not in written
    assert "\r" not in written


def test_markup_in_a_name_is_only_text():
    assert any("[red]w1[/]  gate" in row for row in drawn(still({"[red]w1[/]": report()}, NOW)))


def test_where_only_ascii_can_be_written_nothing_else_is():
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80, height=24)
    console.print(Frame(watched(w1=busy, københavn=busy)))
    console.file.flush()
    text = raw.getvalue().decode("ascii")
    assert "1 230" in text
    assert "......" in text  # the sparkline of interactive tasks
    assert "======" in text
    assert "k?benhavn" in text


def test_without_colour_kinds_are_told_by_letters():
    out = io.StringIO()
    Console(file=out, width=80, no_color=True).print(Frame(still({"w1": busy()}, NOW)))
    assert "IIBBBr.." in out.getvalue()
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(
    ("slots", "width", "expected"),
    [
        ((2, 3, 1, 2), 16, "IIBBBr.."),
        ((0, 0, 0, 0), 16, ""),
        ((100, 300, 0, 0), 8, "IIBBBBBB"),
        ((1, 998, 1, 0), 8, "IBBBBBBr"),  # none that is there vanishes
        ((50, 50, 50, 50), 6, "IIBBr."),
    ],
)
def test_a_strip_has_a_letter_a_slot_or_a_part_a_share(slots, width, expected):
    assert strip(slots, width).plain == expected


def test_slots_that_are_taken_are_not_in_reserve():
    full = report(kind("celery", running=5), kind("celery.batch", running=3))
    assert slots_of(full) == (5, 3, 0, 0)
    resized = report(kind("celery", running=5), kind("celery.batch", running=9))  # of 8 slots now
    assert slots_of(resized) == (5, 9, 0, 0)


def test_a_sparkline_has_the_same_heights_for_the_same_waits_everywhere():
    waits = (0.01, 0.011, 0.06, 0.3, 2.0, 10.0, 100.0, BOUNDS[-1], None)
    assert sparkline(waits, "interactive").plain == "▁▂▃▄▅▆▇█ "


def test_the_docs_explain_the_signs_that_are_drawn():
    text = (Path(__file__).parents[3] / "docs" / "top.md").read_text(encoding="utf-8")
    assert LEGEND in text
    assert all(f"`{height}`" in text for height in HEIGHTS)
    assert all(f"`{reason.value}`" in text for reason in Idle)
    assert all(option in text for option in ("--once", "--interval"))


def test_a_worker_says_what_it_leaves_alone_and_by_whom():
    pause = {"kind": "batch", "queue": None, "by": "ann@ops", "at": 1.0}
    shown = drawn(watched(w1=lambda _: report(steering={"paused": [pause], "draining": None})))
    assert "w1  gate open 60 s  batch paused by ann@ops; nothing interactive waits" in shown


def test_the_engine_and_resources_have_a_row_each_where_they_are_set():
    one = resource(tokens_left=None, rate=1.0, slowed_seconds=0.0)
    resources = {"set": True, "unknown": False, "age_seconds": 1.0, "of": [one], "left_out": 0}
    engine = {"probed": True, "pressure": 1.5, "detail": "waiting requests: 12", "queueing": True}
    reports = {"w1": report(), "w2": report(resources=resources, engine=engine)}
    rows = drawn(still(reports, NOW), width=120)
    assert any(
        row.startswith("engine      engine at 1.5 of what is fine (waiting requests: 12): batch")
        for row in rows
    )
    assert "resources   openai: 3 of 8 running (3 batch)" in rows
    assert not any("resources" in row for row in drawn(still({"w1": report()}, NOW)))
