"""A queue at the broker: of one kind, or of all; whole, or in shards."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import groupby, repeat

from celery_fair.policy.tenant_rules import Tenant
from celery_fair.policy.tenants import Turns
from celery_fair.sim.task import Stream, Task


class Queue:
    """First in, first out. Holds times of publishing, and makes a task of one as it is taken.

    ``count`` is its length; ``waiting`` are the lanes whose fetches wait here, the longest first.
    One that has got a message, and waits for more, is the last again: RabbitMQ serves its consumers
    in turn, and a lane on Redis has one fetch only.
    """

    __slots__ = ("_sources", "_times", "count", "waiting")

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._sources: deque[Stream | Task] = deque()
        self.count = 0
        self.waiting: OrderedDict[object, None] = OrderedDict()

    def put(self, source: Stream | Task, published: float, size: int = 1) -> None:
        """Add what a stream publishes now, or a task that was made before."""
        if size == 1:
            self._times.append(published)
            self._sources.append(source)
        else:
            self._times.extend(repeat(published, size))
            self._sources.extend(repeat(source, size))
        self.count += size

    def put_back(self, task: Task) -> None:
        """Add a task at the front, where it came from."""
        self._times.appendleft(task.published)
        self._sources.appendleft(task)
        self.count += 1

    def take(self, turns: Turns | None = None) -> Task:
        """Remove the first and return it."""
        self.count -= 1
        published = self._times.popleft()
        source = self._sources.popleft()
        return source if source.__class__ is Task else source.make(published)  # type: ignore

    @property
    def first_tenant(self) -> Tenant:
        """Whose task is the first."""
        return self._sources[0].tenant

    def left(self) -> Iterator[tuple[Stream | Task, float, int]]:
        """What is left: of whom, since when, and how many in a row of the same."""
        for (source, published), some in groupby(zip(self._sources, self._times, strict=True)):
            yield source, published, sum(1 for _ in some)


class ShardedQueue(Queue):
    """One queue a shard; tenants get them in turn, as they come up.

    A worker takes from the shard whose first message is of the tenant that has its turn there, of
    several from the one that was taken from the longest ago. (A real one only knows whose message
    it saw there last.)
    """

    __slots__ = ("_number", "_of", "_shards", "_taken")

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = [Queue() for _ in range(shards)]
        self._of: dict[Tenant, int] = {}
        self._taken = [0] * shards
        self._number = 0

    def put(self, source: Stream | Task, published: float, size: int = 1) -> None:
        self._shard(source.tenant).put(source, published, size)
        self.count += size

    def put_back(self, task: Task) -> None:
        self._shard(task.tenant).put_back(task)
        self.count += 1

    def take(self, turns: Turns | None = None) -> Task:
        some = [number for number, shard in enumerate(self._shards) if shard.count]
        first = some[0]
        if turns is not None and len(some) > 1:
            time_of = turns.time_of
            first = min(some, key=lambda n: (time_of(self._shards[n].first_tenant), self._taken[n]))
        self._number += 1
        self._taken[first] = self._number
        self.count -= 1
        return self._shards[first].take()

    def left(self) -> Iterator[tuple[Stream | Task, float, int]]:
        for shard in self._shards:
            yield from shard.left()

    def _shard(self, tenant: Tenant) -> Queue:
        return self._shards[self._of.setdefault(tenant, len(self._of)) % len(self._shards)]
