"""A pool that runs each task within the loop, so that what the broker sent meanwhile is unread."""

from __future__ import annotations

import math
import time

import pytest

from celery_fair.policy import Policy
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from celery_fair.policy.settings import PolicySettings
from celery_fair.worker.dispatcher import SHORTEST_SECONDS, Dispatcher
from celery_fair.worker.lanes import DOUBT_SECONDS, Lane
from celery_fair.worker.windows import Window
from tests.unit.worker.received import received


class Solo:
    """The pool."""

    one_task_a_turn = True
    slots = 1

    def is_running(self):
        return True

    def when_freed(self, pump, wake):
        return wake


class Rig:
    """A dispatcher whose tasks end before it goes on."""

    def __init__(self) -> None:
        now = time.monotonic()
        policy = Policy(PolicySettings(reserve=0), slots=1, now=now)
        self.calls = []
        self.ran = []
        self.dispatcher = Dispatcher(
            policy,
            Solo(),
            self._run,
            lambda seconds, callback: self.calls.append((seconds, callback)),
            lambda queue: BATCH,
        )
        self.dispatcher.wake_by(lambda: None)  # the loop comes to it later
        self.lanes = {kind: Lane(kind, now, 100) for kind in KINDS}
        windows = {kind: Window(lane, None) for kind, lane in self.lanes.items()}
        for window in windows.values():
            window.round_trip_seconds = 0.0
        self.dispatcher.connect(self.lanes, windows)

    def _run(self, request):
        self.ran.append(request)
        request.fair_slot.release()

    def receive(self, kind):
        self.dispatcher.on_task_request(received(self.lanes[kind], {}))


@pytest.fixture
def rig():
    return Rig()


@pytest.mark.parametrize("kind", KINDS)
def test_the_slot_of_a_task_that_has_run_is_free_as_the_broker_is_asked_again(rig, kind):
    """Else batch alone might be asked for, since an interactive task would find no slot."""
    credit = rig.lanes[INTERACTIVE].credit
    assert credit > 0
    rig.receive(kind)
    assert len(rig.ran) == 1
    assert not rig.dispatcher.policy.running
    assert rig.lanes[INTERACTIVE].credit >= credit


def test_a_lane_in_doubt_is_looked_at_when_the_doubt_is_over(rig):
    """Sooner there is no news; and many timers in a row hold up kombu's loop for a second."""
    lane = rig.lanes[INTERACTIVE]
    lane.doubtful, lane.asked_at = True, time.monotonic()
    rig.receive(BATCH)
    assert not rig.ran
    [(seconds, look)] = rig.calls
    assert DOUBT_SECONDS / 2 < seconds <= DOUBT_SECONDS
    lane.asked_at = -math.inf
    look()
    assert len(rig.ran) == 1


def test_no_look_is_due_at_once(rig):
    lane = rig.lanes[INTERACTIVE]
    lane.credit = 0  # so it can't be known to be empty
    lane.asked_at = -math.inf
    rig.receive(BATCH)
    assert [seconds for seconds, _ in rig.calls] == [SHORTEST_SECONDS]
