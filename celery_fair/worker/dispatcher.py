"""Dispatch: a message given to the worker is held until a slot is free and it is its turn."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery_fair.headers import FairHeader
from celery_fair.observe.endings import DUPLICATE
from celery_fair.observer import Observers
from celery_fair.policy import Policy
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.load import Credits
from celery_fair.policy.yields import YieldRules
from celery_fair.state import State, StateAway
from celery_fair.worker import internals, telling
from celery_fair.worker.arrivals import Arrivals
from celery_fair.worker.copies import Copies
from celery_fair.worker.counting import Counting
from celery_fair.worker.deadlines import Deadline
from celery_fair.worker.failing import Failing
from celery_fair.worker.giving_back import GivingBack
from celery_fair.worker.lanes import Held, Lane, make_held
from celery_fair.worker.observing import slot_of_passed_on
from celery_fair.worker.outcomes import WITHDRAWN, unsaid
from celery_fair.worker.pausing import Pausing
from celery_fair.worker.pools import Pool
from celery_fair.worker.probing import Probing
from celery_fair.worker.slots import Slot, Slots
from celery_fair.worker.tenants import Tenants
from celery_fair.worker.timing_out import TimingOut
from celery_fair.worker.windows import Window
from celery_fair.worker.yielding import Asking

if TYPE_CHECKING:
    from celery_fair.worker.clearing.clearing import Clearing

logger = logging.getLogger(__name__)

SHORTEST_SECONDS = 0.001
"""After ten timers that are due at once, kombu's loop polls for a second, whatever else is due."""

Granting = tuple[Credits, tuple[int, int], int, frozenset[Kind], frozenset[Kind]]
"""All that the lanes' credits follow from."""


class Dispatcher:
    """Stands where ``consumer.on_task_request`` stood, and calls the worker's own ``process_task``.

    So the prefork semaphore, autoscale, time limits and ``-O fair`` go on working. ``pump`` is the
    one place where a task gets a slot: it runs after each arrival, each release and each tick.
    """

    def __init__(
        self,
        policy: Policy,
        pool: Pool,
        process_task: Callable[[Any], Any],
        call_later: Callable[[float, Callable[[], None]], Any],
        kind_of_queue: Callable[[str], Kind],
    ) -> None:
        self.policy = policy
        self.pool = pool
        self.slots = Slots()
        self.arrivals = Arrivals()
        self.counting = Counting()
        self.observers = Observers()
        self.dispatched = dict.fromkeys(KINDS, 0)
        self.would_have_held = dict.fromkeys(KINDS, 0)
        """Observe mode: requests that were passed on, and would have had to wait here."""
        self.enforcing = True
        """False while Celery's own consumer pulls, and all that arrives is passed on at once."""
        self.parked: set[Slot] = set()
        """Of what was passed on, the part that waits in a pool which takes more than it runs."""
        self.lanes: Mapping[Kind, Lane] = {}
        self.windows: Mapping[Kind, Window] = {}
        self.spare = 0
        """How many slots autoscale may still add: Celery grows the pool only by what is held."""
        self.lock = threading.RLock()
        self.kind_of_queue = kind_of_queue
        self.probing = Probing(self.arrivals, self.grant)
        self.pausing = Pausing()
        self.giving_back = GivingBack(self.lock, self.probing)
        self.timing_out = TimingOut(Failing(lambda: self.wake()), self.counting.counts)
        self.copies = Copies(_no_state)
        self.tenants = Tenants()
        self.asking = Asking(self, policy.slots, YieldRules)
        self.clearing: Clearing | None = None
        """None where no task uses what workers share, nor a hook has to see any."""
        self.yieldable = 0
        """How many interactive tasks would have a slot within one item of a batch task."""
        self.time_limits: Mapping[Kind, float | None] = {}
        self._process_task = process_task
        self._call_later = call_later
        self._pumping = False
        self._pump_again = False
        self._asking = False
        self._granted: Granting | None = None
        self._followers: list[Callable[[], None]] = []
        self._thread: int | None = None
        self._channels_thread: int | None = None
        self._overdue: tuple[float, float, bool] | None = None
        self._due = False
        self.wake_by(self.pump)
        self.watch_runs(math.inf, lambda request, seconds: None)

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Call ``wake``, from any thread, to have the loop look at the broker and then ``pump``."""
        self.wake = wake
        self.slots.on_free = self.pool.when_freed(self.pump, wake)

    def watch_runs(self, long_seconds: float, ran: Callable[[Any, float], None]) -> None:
        """Call ``ran(request, seconds)`` for each task that has run for so long, or longer."""
        self._long_seconds, self._ran_long = long_seconds, ran

    def uncleared(self) -> dict[Kind, int]:
        """How many wait here for more than a slot; a broker no longer counts them."""
        return {kind: len(lane.uncleared) for kind, lane in self.lanes.items()}

    # --- over the life of a connection

    def connect(self, lanes: Mapping[Kind, Lane], windows: Mapping[Kind, Window]) -> None:
        """Serve the lanes of a new connection."""
        self.lanes, self.windows = lanes, windows
        self.pausing.mark(lanes)
        self.tenants.connect(lanes)
        self._granted = None
        self._followers = [window.follow for window in windows.values() if window.follows]
        self.pump()

    def disconnect(self) -> None:
        """Hold nothing more of a lost connection: its broker gives the messages out again."""
        with self.lock:
            for lane in self.lanes.values():
                lane.close()
            if self.clearing is not None:
                self.clearing.disconnect()
        for window in self.windows.values():
            window.settle()

    def tick(self) -> None:
        """Look again, at what nothing else has told since the last tick."""
        for window in self.windows.values():
            window.tick()
        if self.clearing is not None:
            with self.lock:
                self.clearing.tick(monotonic())
        self.end_overdue()
        self.pump()

    def measured(self, round_trip_seconds: float) -> None:
        """The broker has just answered in that time."""
        for window in self.windows.values():
            window.measured(round_trip_seconds)

    def flushed(self) -> None:
        """The pool has dropped the jobs that no child had accepted."""
        self.pool.on_flushed(self.slots)

    # --- from the broker to the pool

    def on_task_request(self, request: Any) -> None:
        """Hold a request; Celery calls this for new, due, and no longer rate-limited ones."""
        message = internals.message_of(request)
        lane: Lane = message.fair_lane
        if not lane.alive:
            internals.forget_request(request)
            return
        epoch, now = time.time(), monotonic()
        first_published, ready_at, said, whose = self.arrivals.stamps(message.headers, epoch)
        tenant = whose if self.tenants.are_on else None
        deadline = None
        if said is not None or self.probing.deadlines.are_declared:
            deadline = self._said(lane.kind, request, said, epoch - ready_at, now)
        with self.lock:
            if lane.limited and request.__dict__.pop("fair_limited", False):
                lane.limited -= 1
            if self.clearing is not None and self.clearing.takes(
                lane, make_held(request, first_published, ready_at, now, deadline, tenant), now
            ):
                return
            held = lane.hold(request, first_published, ready_at, now, deadline, tenant)
            if self.pausing.keys:
                self.pausing.put_aside(lane)
            if deadline is not None and deadline.at <= now:
                self.end_overdue()
                return
            if "held" in self.observers.hooks:
                self.observers.tell("held", telling.of_held(lane.kind, held))
        if self.policy.running < self.policy.slots or self.slots.finished:
            self.pump()  # else the next to finish does it
        elif self.asking.possible and lane.kind == INTERACTIVE:
            with self.lock:
                self.asking.look(now)

    def _said(
        self, kind: Kind, request: Any, said: FairHeader | None, waited: float, now: float
    ) -> Deadline | None:
        """When a request is overdue; and a copy is noted as one."""
        if said is not None and said.once is not None:
            self.copies.mark(request, said.once)
        message, name = internals.message_of(request), request.task.name
        return self.probing.deadlines.of(kind, name, request.id, message, said, waited, now)

    def end_overdue(self) -> None:
        """Fail what has waited for too long, also while no slot is free."""
        now = monotonic()
        with self.lock:
            for lane in self.lanes.values():
                for held in lane.take_overdue(now):
                    if not self.copies.seen or self._may_run(lane, held):
                        self.timing_out.end(lane, held, now)

    def confine_to_this_thread(self) -> None:
        """Dispatch in the consumer's thread only: under solo without a loop it runs the tasks.

        Timers have a thread of their own there; what they find is left for the next look at the
        broker, and the tasks held are run in a row, since nothing comes back to the loop.
        """
        self._thread = threading.get_ident()

    def give_back_in_this_thread(self) -> None:
        """Use the consumer's channels in its own thread only, where timers have another.

        Else a message might go back twice: by the timer, and with all that is unacknowledged as its
        connection is lost. And a database's session is not made for two threads.
        """
        self._channels_thread = threading.get_ident()

    def before_look(self) -> None:
        """Do what was left by another thread."""
        overdue, self._overdue = self._overdue, None
        if overdue is not None:
            self.give_back_overdue(*overdue)
        if self._due:
            self.pump()

    def pump(self) -> None:
        """Start what may start, then tell the lanes how much more they may hold."""
        if self._thread is not None and self._thread != threading.get_ident():
            self._due = True
            return
        self._due = False
        with self.lock:
            if self._pumping:
                self._pump_again = True
                return
            self._pumping = True
            try:
                self._pump()
            finally:
                self._pumping = False

    def _pump(self) -> None:
        while True:
            self._pump_again = False
            self.note_finished()
            if self.timing_out.has_failed:
                self._settle_timed_out()
            if self.clearing is not None:
                self.clearing.settle(monotonic())
            if self.enforcing and self.pool.is_running() and self._dispatch():
                self.wake()
                self.note_finished()  # the broker may be asked before the loop is awake
                break
            if not self._pump_again and not self.slots.finished:
                break
        if self.asking.asked:
            self.asking.look(monotonic())
        self.grant()
        if self.clearing is not None:
            self.clearing.look(monotonic())

    def note_finished(self) -> None:
        """Tell the policy and the counts of the slots that were given back; the lock is held."""
        finished, finish = self.slots.finished, self.policy.finish
        while finished:
            slot = finished.popleft()
            run_seconds = slot.finished_at - slot.started_at
            if self.asking.asked:
                self.asking.left(slot)
            turn = slot.turn
            if turn is not None:
                self.tenants.turns[slot.kind].end(turn, run_seconds)
                slot.turn = None  # its memory is the next one's at once, and still at hand
                if self.tenants.on_end is not None:
                    self.tenants.on_end(slot.kind, turn, run_seconds)
            finish(slot.kind, slot.finished_at, run_seconds)
            if self.clearing is not None:
                self.clearing.left(slot)
            if slot.outcome == WITHDRAWN:
                slot.request = None
                continue
            if run_seconds >= self._long_seconds:
                self._ran_long(slot.request, run_seconds)
            if "finished" in self.observers.hooks:
                self._tell_end(slot)
            self.counting.ended.append(slot)

    def _settle_timed_out(self) -> None:
        if self._channels_thread in (None, threading.get_ident()):
            self.timing_out.settle()
        else:
            self._due = True

    def settle(self) -> None:
        """Have all counted that has happened until now."""
        with self.lock:
            self.note_finished()
            self.counting.settle()
            for slot in list(self.parked):
                if slot not in self.slots.taken:  # the pool has dropped its job unbegun
                    self.parked.discard(slot)

    def _tell_end(self, slot: Slot) -> None:
        slot.outcome = slot.outcome or unsaid(slot.request)
        self.observers.tell("finished", telling.of_slot(slot, finished=True))

    def _dispatch(self) -> bool:
        """Dispatch by turns; whether the loop should look at the broker before the next."""
        interactive, batch = self.lanes.get(INTERACTIVE), self.lanes.get(BATCH)
        if interactive is None or batch is None:
            return False
        policy, now = self.policy, monotonic()
        while policy.running < policy.slots:
            held, batch_held = len(interactive.held), len(batch.held)
            if not held and not batch_held:
                return False
            round_trip = self.windows[INTERACTIVE].round_trip_seconds
            empty = not batch_held or (
                not held and (interactive.is_blocked or interactive.is_empty(now, round_trip))
            )
            kind = policy.pick(held, batch_held, now, empty)
            if kind is None:
                if not empty:
                    self._ask_first(max(interactive.silence_left(now, round_trip), round_trip))
                return False
            self._start(self.lanes[kind], now)
            if self.pool.one_task_a_turn and self._thread is None:
                self._ask_anew()
                return True
        return False

    def _ask_anew(self) -> None:
        """The task has held up the loop: what the broker has sent meanwhile is still unread."""
        now = monotonic()
        for lane in self.lanes.values():
            lane.asked_at = now

    def _ask_first(self, seconds: float) -> None:
        """Look again when the interactive lane has had time to answer."""
        if not self._asking:
            self._asking = True
            self._call_later(max(seconds, SHORTEST_SECONDS), self._asked)

    def _asked(self) -> None:
        self._asking = False
        self.pump()

    def _start(self, lane: Lane, now: float) -> None:
        kind = lane.kind
        held = lane.take(now)
        _, _, request, ready_at, received_at, deadline, tenant = held
        if self.clearing is not None and not self.clearing.may_start(held, now):
            return
        if self.copies.seen and not self._may_run(lane, held):
            return
        if deadline is not None and deadline.at <= now:
            self.timing_out.end(lane, held, now)
            return
        if internals.may_be_revoked(request) and request.revoked():
            return  # asked here, since ``process_task`` would swallow it with the slot
        policy = self.policy
        slot = self.slots.take(kind, request, now, received_at, ready_at, policy.mode)
        if self.clearing is not None:
            self.clearing.begin(slot)
        if lane.takes_turns:
            slot.turn = turn = lane.turns.start(tenant, now)
            if self.tenants.on_start is not None:
                self.tenants.on_start(kind, turn)
        self.counting.started.append(slot)
        self.windows[kind].starting(request)
        policy.start(kind, now, now - received_at)
        if policy.yields_per_second and kind == BATCH:
            self.asking.begins(request.task.name, now)
        self.dispatched[kind] += 1
        if "dispatched" in self.observers.hooks:
            self.observers.tell("dispatched", telling.of_slot(slot, finished=False))
        self.process_task(self._process_task, request)

    def _may_run(self, lane: Lane, held: Held) -> bool:
        """Whether no other copy of a task does; else this one is dropped: the other tells of it."""
        if self.copies.may_run(held.request):
            return True
        self.copies.drop(held.request)
        self.counting.counts.dropped[lane.kind][DUPLICATE] += 1
        if "dropped" in self.observers.hooks:
            self.observers.tell("dropped", telling.of_held(lane.kind, held, DUPLICATE))
        return False

    def process_task(self, process: Callable[[Any], Any], request: Any) -> None:
        """Hand a request to the pool, and give its slot back if the pool has not got it.

        Prefork's semaphore may keep the request until a killed child is reaped, and call this then;
        meanwhile it may have been revoked, or have expired.
        """
        try:
            process(request)
        except BaseException:
            if hasattr(request, "fair_slot"):
                request.fair_slot.release()
            raise
        if internals.was_revoked(request) and hasattr(request, "fair_slot"):
            request.fair_slot.withdraw()

    def pass_on(self, request: Any) -> None:
        """Hand a request to Celery as it came; its slot counts from when the pool takes it."""
        self._process_task(request)

    def apply_async(self, apply: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """``pool.apply_async``, so that a task's slot is given back when its job has ended."""
        request = internals.request_of(options.get("callback"))
        slot = getattr(request, "fair_slot", None)
        if slot is None:
            if not internals.is_request(request):
                return apply(*args, **options)
            slot = slot_of_passed_on(self, request, options)
        limit = self.time_limits.get(slot.kind)
        if limit is not None and options.get("timeout") is None:
            options["timeout"] = limit
        return self.pool.apply(apply, slot, args, options)

    # --- credit

    def grant(self) -> None:
        """Hand the policy's credits to the lanes, and the lanes' room to the broker."""
        if not self.enforcing:
            return
        now = monotonic()
        policy, probing = self.policy, self.probing.kinds
        spare = (self.spare, self.yieldable)
        granting = (policy.credits(now), spare, policy.reserve, probing, policy.paused)
        if granting != self._granted:
            self._granted = granting
            self._grant(*granting, now)
        for follow in self._followers:
            follow()

    def _grant(
        self,
        credits: Credits,
        spares: tuple[int, int],
        reserve: int,
        probing: frozenset[Kind],
        paused: frozenset[Kind],
        now: float,
    ) -> None:
        spare, yieldable = spares
        allowed = {INTERACTIVE: credits.interactive + yieldable, BATCH: credits.batch}
        if spare:
            allowed[INTERACTIVE] += spare
            allowed[BATCH] += spare + reserve
        for kind, lane in self.lanes.items():
            if lane.alive:
                credit = self.probing.credit(lane, allowed[kind], probing)
                lane.grant(0 if kind in paused else credit, now)

    def give_back_overdue(
        self, hold_seconds: float, longest_seconds: float = math.inf, others_free: bool = False
    ) -> None:
        """Return to the broker what has been held for too long (``GivingBack``)."""
        if self._channels_thread not in (None, threading.get_ident()):
            self._overdue = (hold_seconds, longest_seconds, others_free)
            return
        self.giving_back.overdue(self.lanes, self.windows, hold_seconds, longest_seconds)
        if self.clearing is not None:
            self.clearing.give_back(hold_seconds, longest_seconds, others_free)


def _no_state() -> State:
    raise StateAway
