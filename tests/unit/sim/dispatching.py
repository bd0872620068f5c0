"""The worker's own dispatcher in virtual time: in the place of the simulated worker."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from celery_fair.headers import NAME, FairHeader
from celery_fair.policy import BATCH, KINDS
from celery_fair.policy.holding import hold_seconds
from celery_fair.sim import FairSetup
from celery_fair.sim.worker import Worker
from celery_fair.worker import backlog, dispatcher, giving_back, slots
from celery_fair.worker.backlog import Backlog
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import Lane
from celery_fair.worker.windows import Window, with_measured
from tests.unit.worker.received import Received, received

MODULES = (dispatcher, slots, giving_back)
EPOCH = 1e9


class Request(Received):
    """Each is itself alone, as Celery's are."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Pulled(Window):
    """The simulated broker's: what is given back costs nothing."""

    gives_back_to_the_front = True

    def measured(self, round_trip_seconds: float) -> None:
        self.round_trip_seconds = with_measured(self.round_trip_seconds, round_trip_seconds)

    def can_give_back(self, message: Any) -> bool:
        return True


class Ready(Backlog):
    """What is ready at the simulated broker, of one queue a kind."""

    def queues(self, kind: Any) -> list[str]:
        return [kind]


class Dispatching(Worker):
    """Slots are given by `Dispatcher`, and loads told by `Backlog`; the rest is as simulated.

    Two lanes stand for one: Celery's holds messages, and the simulated one fetches them.
    """

    def _boot(self) -> None:
        super()._boot()
        host = self.host
        pool = SimpleNamespace(
            one_task_a_turn=False, slots=self.slots, is_running=lambda: True,
            when_freed=lambda pump, wake: pump,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            self.policy, pool, self._process, self._call_later, lambda queue: BATCH
        )
        lanes = {kind: Lane(kind, host.now, 100) for kind in KINDS}
        windows = {kind: Pulled(lane, None) for kind, lane in lanes.items()}
        for window in windows.values():
            for _ in range(100):
                window.measured(host.round_trip_seconds)
        measuring = SimpleNamespace(
            count=lambda queues, now: host.backlog(queues[0]),
            sensor=SimpleNamespace(read_at=host.now),
        )
        self.backlog = Ready(self.dispatcher, measuring, None, lambda queue: queue)
        self.measuring = measuring
        self.tasks = {}
        self.dispatcher.connect(lanes, windows)

    def _call_later(self, seconds, callback):
        def call(_):
            if self.alive:
                callback()
                self._fetch()

        self.host.at(self.host.now + seconds, call)

    def _process(self, request):
        task = request.simulated
        self.running[task] = None
        self.tasks[task] = request
        self.host.run_task(self, task)

    def advance(self, _=None):
        if self.alive:
            self.dispatcher.pump()
            self._fetch()

    def receive(self, lane, task):
        task.received = self.host.now
        real = self.dispatcher.lanes[lane.kind]
        real.asked_at = self.host.now
        if self.others_may_take and real.room() + real.credit // 2 <= 0:  # as `Puller` does
            self.host.give_back([task])
            self._fetch()
            return
        at = EPOCH + task.published
        header = FairHeader(lane.kind, at, at, tenant=task.tenant)
        request = received(real, {NAME: header.as_line()})
        request = Request(**{**vars(request), "id": str(task.number), "simulated": task})
        request._message.channel = None
        request._message.requeue = lambda: self.host.give_back([task])
        self.dispatcher.on_task_request(request)
        self._fetch()

    def finish(self, task):
        del self.running[task]
        self.tasks.pop(task).fair_slot.release()
        self._fetch()

    def tick(self):
        now, lanes = self.host.now, self.dispatcher.lanes
        for kind, lane in lanes.items():
            lane.doubtful = bool(self.host.backlog(kind))
        self.measuring.sensor.read_at = now
        load = self.backlog.load(now)
        self.dispatcher.tenants.tick(load, self.policy.stretch, now)
        self.policy.observe(load, now)
        usual, reserve = self.host.hold_max_seconds, self.policy.fleet_reserve
        self.dispatcher.give_back_overdue(hold_seconds(usual, self.others_free, reserve))
        self.dispatcher.tick()
        self._fetch()

    def unfinished(self):
        held = [h.request.simulated for lane in self.dispatcher.lanes.values() for h in lane]
        return [*self.running, *held]

    def _fetch(self):
        """As a window does: ask while there is room."""
        for lane in (self.interactive, self.batch):
            real = self.dispatcher.lanes[lane.kind]
            lane.held, lane.credit = list(real), real.credit
            most = real.room() if self._pushes else min(real.room(), 1)
            while lane.under_way < most:
                self.host.fetch(lane)
            if real.room() <= 0 and lane.parked:
                self.host.withdraw(lane)


@dataclass(frozen=True)
class Dispatchers(FairSetup):
    """A fleet of them, by one clock; ``monkeypatch`` has to end before another begins."""

    monkeypatch: Any = None

    def workers(self, scenario, host, queues):
        for module in MODULES:
            self.monkeypatch.setattr(module, "monotonic", lambda: host.now)
        for module in (dispatcher, backlog):
            clock = SimpleNamespace(time=lambda: EPOCH + host.now)
            self.monkeypatch.setattr(module, "time", clock)
        return [
            Dispatching(index, scenario.slots, self.settings, host, queues)
            for index in range(scenario.workers)
        ]
