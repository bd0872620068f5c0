"""What a message says of its age: believed as far as it can be true."""

from __future__ import annotations

import json
import logging
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from celery_fair.headers import FairHeader
from celery_fair.policy import Policy
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from celery_fair.policy.settings import PolicySettings
from celery_fair.worker.arrivals import (
    HEAD_START_SECONDS,
    MOST_REMEMBERED,
    OLDEST_SECONDS,
    SHORT,
    Arrivals,
)
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.windows import Window
from tests.unit.worker.received import received

NOW = 1_800_000_000.0
HOUR = 3600.0


def stamps(first: float, ready: float | None = None) -> tuple[float, float]:
    fair = FairHeader(BATCH, first, first if ready is None else ready)
    return Arrivals().stamps({"fair": fair.as_line()}, NOW)[:2]


def test_a_believable_age_is_taken_as_it_is():
    assert stamps(NOW - 10, NOW - 5) == (NOW - 10, NOW - 5)


def test_a_publisher_in_the_future_does_not_stand_behind_all_others():
    assert stamps(NOW + HOUR) == (NOW, NOW + HOUR)  # the wait is clamped, and counted, later


def test_a_publisher_in_the_past_stands_before_the_others_for_a_minute_at_the_most():
    assert stamps(NOW - HOUR)[0] == NOW - HEAD_START_SECONDS


def test_one_that_has_yielded_says_so():
    arrivals, said = Arrivals(), FairHeader("batch", NOW, NOW, yields=2)
    assert arrivals.stamps({"fair": said.as_line()}, NOW)[2] == said
    plain = said._replace(yields=0)
    assert arrivals.stamps({"fair": plain.as_line()}, NOW)[2] is None


def test_batch_that_waited_for_a_week_did_wait_for_a_week():
    week = 7 * 24 * HOUR
    assert stamps(NOW - week)[1] == NOW - week


def test_an_age_of_years_is_a_wrong_clock():
    arrivals = Arrivals()
    assert arrivals.stamps({"fair": "batch 0.0"}, NOW)[:2] == (NOW - HEAD_START_SECONDS, NOW)
    assert arrivals.clamped == 1


@pytest.mark.parametrize(
    "bad", ["nan", "inf", "-1.0", "1e12", "True", "", "9" * 4_000, "9" * 2**20]
)
def test_what_is_no_time_is_no_age(bad):
    assert Arrivals().stamps({"fair": f"batch {bad}"}, NOW) == (NOW, NOW, None, None)


@pytest.mark.parametrize(
    ("headers", "missing", "unreadable"),
    [
        (None, 1, 0),
        ({}, 1, 0),
        ({"fair": None}, 0, 1),
        ({"fair": "batch"}, 0, 1),
        ({"fair": {"kind": BATCH, "first_published": NOW}}, 0, 1),
        ({"fair": f"urgent {NOW}"}, 0, 1),
        ({"fair": f"batch {NOW}"}, 0, 0),
        ({"fair": f"batch {NOW} nonsense"}, 0, 0),
    ],
)
def test_what_cannot_be_used_is_counted(headers, missing, unreadable):
    arrivals = Arrivals()
    arrivals.stamps(headers, NOW)
    assert (arrivals.missing, arrivals.unreadable) == (missing, unreadable)


# --- the path of a message, whatever it carries

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
times = st.floats() | st.integers() | st.sampled_from([0, -1, 1e9, 4e9, 1e11, 1e308, "1e9", None])
more = st.fixed_dictionaries(
    {},
    optional={
        "ready_at": times,
        "request_id": anything,
        "tenant": anything | st.just("t" * 1_000),
        "covers_children": anything,
        "timeout_seconds": times,
        "once": anything,
        "yields": times,
    },
)
fair_headers = st.builds(
    lambda *parts: " ".join(map(str, parts)),
    st.sampled_from([*KINDS, "urgent", "", None, 1, ["batch"]]) | st.text(),
    times,
    more.map(lambda fields: json.dumps(fields, default=str)) | st.just("") | anything,
)
hostile = st.one_of(
    st.none(),
    st.just({}),
    anything.map(lambda x: {"fair": x}),
    fair_headers.map(lambda x: {"fair": x}),
)


near_now = st.floats(NOW - 100, NOW + 1).map(repr)
of_near_now = st.builds(
    lambda kind, at, fields, end: f"{kind} {at} {fields}{end}",
    st.sampled_from(KINDS),
    near_now,
    more.map(lambda fields: json.dumps(fields, default=str)) | st.sampled_from(["", "{", "[]"]),
    st.sampled_from(["", " ", "\n", "}", "1"]),
)


@given(fair_headers | of_near_now)
def test_in_haste_a_header_says_what_it_says_when_all_of_it_is_looked_at(line):
    headers = {"fair": line}
    assert Arrivals().stamps(headers, NOW) == Arrivals()._checked(headers, NOW)


def test_what_headers_say_of_tenants_is_remembered_in_bounds():
    arrivals = Arrivals()
    for number in range(2 * MOST_REMEMBERED + 1):
        said = f'{{"tenant":"{number}"}}'
        headers = {"fair": f"batch {NOW} {said}"}
        assert arrivals.stamps(headers, NOW)[3] == str(number)
        assert arrivals.stamps(headers, NOW)[3] == str(number)
        assert len(arrivals._whose) <= MOST_REMEMBERED
    before = dict(arrivals._whose)
    arrivals.stamps({"fair": f'batch {NOW} {{"tenant":"{"t" * SHORT}"}}'}, NOW)
    assert arrivals._whose == before  # nor is any one of them long


class Rig:
    """A dispatcher with a pool of one slot, whose tasks end when they are told to."""

    def __init__(self) -> None:
        pool = SimpleNamespace(RUN=1, _state=1, num_processes=1)
        now = time.monotonic()
        self.running: list[Any] = []
        self.dispatcher = Dispatcher(
            Policy(PolicySettings(reserve=0), slots=1, now=now),
            Pool(pool),
            self.running.append,
            lambda seconds, callback: None,
            lambda queue: INTERACTIVE,
        )
        self.lanes = {kind: Lane(kind, now, 100) for kind in KINDS}
        windows = {kind: Window(lane, None) for kind, lane in self.lanes.items()}
        for window in windows.values():
            window.round_trip_seconds = 0.0  # no broker answers here
        self.dispatcher.connect(self.lanes, windows)

    def receive(self, kind: str, headers: Any) -> None:
        self.dispatcher.on_task_request(received(self.lanes[kind], headers))

    def finish(self) -> None:
        while self.running:
            self.running.pop().fair_slot.release()
        self.dispatcher.pump()

    @property
    def at_rest(self) -> bool:
        held = sum(len(lane) for lane in self.lanes.values())
        return not held and not len(self.dispatcher.slots) and not self.dispatcher.policy.running


def test_one_revoked_while_prefork_had_it_parked_ends_once():
    """Celery's signal has told of it: it is among the drops."""
    rig = Rig()
    rig.receive(INTERACTIVE, {})
    (request,) = rig.running
    request._already_revoked = True
    rig.dispatcher.process_task(lambda request: None, request)
    rig.dispatcher.pump()
    assert rig.at_rest
    rig.dispatcher.settle()
    assert not any(rig.dispatcher.counting.counts.finished[INTERACTIVE].values())


@pytest.mark.timeout(3600)  # of which --full takes many minutes
def test_no_header_can_stop_a_worker_make_it_import_or_log(full, caplog):
    """``--full``: 100,000 of them."""
    rig, modules = Rig(), set(sys.modules)
    caplog.set_level(logging.DEBUG)

    @settings(max_examples=500, deadline=None, derandomize=False, database=None)
    @given(st.lists(st.tuples(st.sampled_from(KINDS), hostile), min_size=1, max_size=4))
    def receive(messages):
        before = sum(rig.dispatcher.dispatched.values())
        for kind, headers in messages:
            rig.receive(kind, headers)
        for _ in messages:
            rig.finish()
        assert rig.at_rest
        assert sum(rig.dispatcher.dispatched.values()) == before + len(messages)

    for number in range(200 if full else 1):  # anew each time, since hypothesis remembers it all
        seed(number)(receive)()
    assert not [record for record in caplog.records if record.name.startswith("celery_fair")]
    assert {name for name in set(sys.modules) - modules if name.startswith("celery")} == set()
    rig.dispatcher.settle()
    for kind in KINDS:
        summary = rig.dispatcher.counting.waits.summary(kind, time.monotonic())
        assert 0 <= summary["max"] <= OLDEST_SECONDS
