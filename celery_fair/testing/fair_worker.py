"""`FairWorker`: a worker on a team's own app, load for it, and what must be true under load."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from celery.canvas import Signature
from celery.result import AsyncResult

from celery_fair.app import Fair
from celery_fair.errors import BadOption
from celery_fair.front import with_front
from celery_fair.jobs.job import Job
from celery_fair.options import known_kind
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.testing import bearing, shares, waits
from celery_fair.testing import work as own_work
from celery_fair.testing.apart import apart
from celery_fair.testing.brokers import TestBroker, clean
from celery_fair.testing.embedded import embedded
from celery_fair.testing.interrupting import Countdown, Interrupted, count_down, interrupting
from celery_fair.testing.journal import Telling
from celery_fair.testing.lending import as_environment, lent
from celery_fair.testing.told import Watch
from celery_fair.testing.wanted import Wanted

__tracebackhide__ = True
"""Of pytest: a failure is shown where the test asks, and not in here."""


class FairWorker:
    """What the fixture `fair_worker` is: a running worker with both lanes, on an empty broker.

    Celery has no types, so its signatures and results are Any here, as they are for who uses it.
    """

    def __init__(self, fair: Fair, watch: Watch, hold_slot: Any, countdown: Countdown) -> None:
        self.app = fair.app
        self.fair = fair
        self._watch = watch
        self._hold_slot = hold_slot
        self._countdown = countdown

    @classmethod
    @contextmanager
    def running(cls, app: Any, broker: TestBroker, wanted: Wanted) -> Iterator[FairWorker]:
        """Start the worker; leave the app, the broker and this process as they were."""
        wanted.check_broker(broker)
        conf = broker.conf()
        setup = f"{wanted.concurrency} slots, {wanted.pool}, on {broker.name}"
        watch = Watch(app, wanted.concurrency, setup)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="celery-fair-")))
            fair = stack.enter_context(lent(app, conf, wanted.settings))
            hold_slot = stack.enter_context(own_work.registered(app))
            stack.enter_context(clean(broker, app, _queues(fair)))
            telling = Telling(watch.journal.take)
            fair.add_observer(telling)
            stack.callback(fair.remove_observer, telling)
            self = cls(fair, watch, hold_slot, Countdown(folder / "countdown"))
            stack.enter_context(self._worker(folder, conf, wanted))
            stack.callback(watch.journal.close)
            stack.callback(own_work.let_go)
            yield self

    @contextmanager
    def _worker(self, folder: Path, conf: dict[str, Any], wanted: Wanted) -> Iterator[None]:
        hostname = f"{folder.name}@localhost"
        if not wanted.is_apart:
            with embedded(self.app, hostname, wanted.pool, wanted.concurrency) as worker:
                worker.when_over(self._watch.journal.close)
                self._watch.ended = worker.how_ended
                count_down(self.fair, self._countdown)
                yield
            return
        spec = {
            "app": wanted.app,
            "pool": wanted.pool,
            "concurrency": wanted.concurrency,
            "conf": conf,
            "hostname": hostname,
            "countdown": str(folder / "countdown"),
        }
        environ = as_environment(wanted.settings)
        with apart(spec, folder, self._watch.journal.take, environ) as child:
            self._watch.ended = lambda: (
                "" if child.is_running else f"the worker has ended:\n{child.said()}"
            )
            yield

    def __repr__(self) -> str:
        return f"<FairWorker of {self.app.main!r}: {self._watch.setup}>"

    # -- load

    def flood(
        self,
        batch: int = 0,
        interactive: int = 0,
        *,
        task: Any = None,
        seconds: float = 0.05,
    ) -> list[Any]:
        """Publish so many tasks of each kind at once, and return their results.

        Without ``task`` they hold a slot for ``seconds`` and do nothing. A ``task`` of the team's
        own is published as it is; one whose kind isn't the flood's fails the test.
        """
        found: list[Any] = []
        kinds: tuple[tuple[Kind, int], ...] = ((BATCH, batch), (INTERACTIVE, interactive))
        for kind, count in kinds:
            if count < 0:
                raise BadOption(f"flood({kind}=…)", "a number of tasks", count)
            found += [self._publish(kind, task, seconds) for _ in range(count)]
        return found

    def _publish(self, kind: Kind, task: Any, seconds: float) -> Any:
        if task is None:
            return self._hold_slot.apply_async((seconds,), kind=kind)
        result = _signature(task, "flood(task=…)").apply_async()
        story = self._watch.story(result.id)
        if story is not None and story.kind != kind:
            raise AssertionError(
                f"expected {story.name} to be {kind}, and it was published as {story.kind}: "
                f'@fair_task(kind="{kind}"), kinds= or the queue that it is sent to decides'
            )
        return result

    # -- what must be true

    def assert_starts_within(self, seconds: float, task: Any = None, *, times: int = 1) -> float:
        """Publish ``task`` under the load there is; it must start in time. Returns its wait.

        ``times`` of them are published one after the other, each once the last has started, and
        the longest wait counts. Without ``task``: an interactive one that does nothing.
        """
        if times < 1:
            raise BadOption("assert_starts_within(times=…)", "a number of tasks, 1 or more", times)
        name = "an interactive task" if task is None else _signature(task, _STARTS).task
        longest = 0.0
        for number in range(1, times + 1):
            result = self._publish(INTERACTIVE, None, 0.0) if task is None else task.apply_async()
            wait = waits.wait_of(self._watch, result.id, seconds)
            if wait is None or wait > seconds:
                what = f"{name}{waits.nth(number, times)}"
                raise waits.late(self._watch, result.id, what, seconds, wait)
            longest = max(longest, wait)
        return longest

    def assert_share_at_least(
        self, share: float, kind: Kind = BATCH, *, seconds: float = 2.0
    ) -> float:
        """Measure for ``seconds``: ``kind`` must have that part of the slots. Returns its part.

        While both kinds wait, or a share means nothing: so both are published meanwhile, beside
        what the test has published.
        """
        kind = known_kind(kind, "assert_share_at_least(…)")
        if not 0 < share <= 1:
            raise BadOption("assert_share_at_least(…)", "a share above 0, up to 1", share)

        def publish(one: Kind) -> Any:
            return self._publish(one, None, shares.RUN_SECONDS)

        batch_share = self.fair.settings.batch_share
        return shares.share_of(self._watch, publish, kind, share, seconds, batch_share)

    # -- stopping work and going on

    def interrupt_after(
        self,
        n_items: int,
        work: Any,
        *,
        timeout: float = 30.0,
    ) -> Interrupted:
        """Run ``work`` to its end, and stop each of its runs after ``n_items``.

        ``work`` is a signature of a task that yields, or a function that submits a job or
        publishes a task and returns it. The test fails if it was never stopped, if it fails, or
        if it isn't over after ``timeout`` seconds.
        """
        if n_items < 1:
            raise BadOption("interrupt_after(…)", "a number of items, 1 or more", n_items)
        with interrupting(self._countdown, n_items):
            made = work.apply_async() if isinstance(work, Signature) else work()
            if isinstance(made, Job):
                times = bearing.times_of_job(self._watch, made, timeout)
            elif isinstance(made, AsyncResult):
                times = bearing.times_of_task(self._watch, made, timeout)
            else:
                raise BadOption("interrupt_after(…)", "an AsyncResult or a Job of work()", made)
        if not times:
            raise bearing.never_stopped(self._watch, made, n_items, self._countdown.most_asked)
        return Interrupted(times, made)


_STARTS = "assert_starts_within(…)"


def _queues(fair: Fair) -> list[str]:
    known = [name for names in fair.queues_and_shards.values() for name in names]
    every = dict.fromkeys([*known, *fair.app.amqp.queues])
    return list(dict.fromkeys(name for queue in every for name in with_front(queue)))


def _signature(task: Any, where: str) -> Any:
    if not isinstance(task, Signature):
        raise BadOption(where, "a signature, as in summarize.s(7)", task)
    return task
