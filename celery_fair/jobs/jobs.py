"""The jobs of an app: submits them, and finds them again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from celery_fair.errors import StateAway
from celery_fair.jobs import conflicts, tickets
from celery_fair.jobs import items as sources
from celery_fair.jobs.job import Job
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.producing import ENDED_EARLY, Producer
from celery_fair.jobs.progress import PAUSED, Progress
from celery_fair.jobs.store import JobStore
from celery_fair.jobs.submitting import make_plan

if TYPE_CHECKING:
    from celery_fair.app import Fair


class Jobs:
    """Made with its `Fair`; asks nothing before it has to."""

    def __init__(self, fair: Fair) -> None:
        self.fair = fair
        self._store: JobStore | None = None
        self._let_go: Callable[[], None] = _nothing
        #: Chunks that are to run here, where an app's tasks do (``task_always_eager``).
        self.eager: deque[tuple[Any, dict[str, Any]]] = deque()

    @property
    def store(self) -> JobStore:
        """Where jobs are kept; raises `SettingsError` where there is no Redis for it."""
        if self._store is None:
            self._store = self._make_store()
        return self._store

    def _make_store(self) -> JobStore:
        if self.fair.app.conf.task_always_eager:
            from celery_fair.jobs.memory_store import MemoryStore

            return MemoryStore()
        from celery_fair.jobs.redis_store import RedisStore

        store = RedisStore.of(self.fair)
        self._let_go = store.disconnect
        return store

    def close(self) -> None:
        """Let go of the store."""
        self._store = None
        self._let_go()
        self._let_go = _nothing

    # -- submitting

    def submit(
        self,
        task: Any,
        items: Any,
        *,
        id: str | None,
        results: bool,
        numbers: dict[str, Any],
        callbacks: dict[str, Any],
        options: dict[str, Any],
    ) -> Job:
        """See `Fair.submit_job`."""
        sources.check(items)
        known = items if isinstance(items, Sequence) else None
        if known is not None and numbers["total"] is None:
            numbers["total"] = len(known)
        plan = make_plan(self.fair, task, numbers, callbacks, options, id=id, results=results)
        is_small = known is not None and len(known) <= plan.ahead
        if is_small:
            for index, item in enumerate(known or ()):  # all or none
                sources.encode(index, item)
            self.fair.admit(plan.options["kind"])
        return self._submit(plan, items, is_small=is_small)

    def _submit(self, plan: Plan, items: Any, *, is_small: bool) -> Job:
        if not self.store.create(plan):
            plan = self._again(plan.id)
            is_small = is_small and len(items) <= plan.ahead
        producer = Producer(self, plan, items)
        job = Job(self, plan.id, producer)
        if self.fair.app.conf.task_always_eager:
            producer.meanwhile = partial(self._make_room, plan.id)
            producer.run()
            self._run_eager()
        elif is_small:
            producer.run()
        else:
            producer.start()
        return job

    def _again(self, id: str) -> Plan:
        """Go on with a job that is there; one that somebody has paused stays so."""
        progress = self.store.progress(id)
        if progress.state == PAUSED and (progress.reason or "").startswith(ENDED_EARLY):
            self.store.resume(id)
        return self.store.plan(id)

    def start(self, id: str) -> None:
        """Publish what a job has work and room for; what can't be now, a worker does later."""
        with suppress(StateAway):
            plan = self.store.plan(id)
            tickets.publish(self.fair, plan, tickets.grant(self.store, plan))
        self._run_eager()

    def _make_room(self, id: str, _: float) -> None:
        """Run what waits; where nothing does, there will be no room before the job goes on."""
        if not self.eager and self.store.progress(id).state == PAUSED:
            raise conflicts.stands(id)
        self._run_eager()

    def _run_eager(self) -> None:
        while self.eager:
            task, options = self.eager.popleft()
            task.apply((), {}, **options)

    # -- asking

    def job(self, id: str) -> Job:
        """Return the handle of a job, which may be any; asks nothing."""
        return Job(self, id)

    def list(self, start: int = 0, count: int = 50) -> Sequence[Progress]:
        """Return jobs, the newest first."""
        return self.store.list(start, count)


def _nothing() -> None:
    """There is no connection to let go of."""
