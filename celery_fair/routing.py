"""From a kind to a queue, beside the routers that a team has. `docs/settings.md` has the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from celery.app.routes import Router
from celery.utils.collections import lpmerge
from kombu import Exchange, Queue

from celery_fair.errors import SettingsError
from celery_fair.front import FRONT as FRONT
from celery_fair.front import behind, front_like, front_of, may_have_front
from celery_fair.front import is_front as is_front
from celery_fair.headers import NAME
from celery_fair.policy.hands import MOST_SHARDS
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.publish import Publish
from celery_fair.sharding.names import home_of, shard_like, shards_of

if TYPE_CHECKING:
    from celery_fair.app import Fair

NO_SHARDS: Final[Mapping[Kind, int]] = dict.fromkeys(KINDS, 1)

#: What names a place to publish to. A route is followed whole or not at all in these.
DESTINATION: Final = ("queue", "exchange", "routing_key")


class Lanes:
    """Which queues each kind has, and which kind each queue."""

    def __init__(
        self,
        mapped: Mapping[Kind, Sequence[str]],
        default_queue: str,
        shards: Mapping[Kind, int] = NO_SHARDS,
    ) -> None:
        """Complete what the team mapped by one queue for a kind that it left out.

        Raises `SettingsError` if that one is a queue of the other kind.
        """
        usual: dict[Kind, str] = {INTERACTIVE: default_queue, BATCH: f"{default_queue}.batch"}
        #: Tasks of a kind are sent to the first of its queues.
        self.queues: dict[Kind, tuple[str, ...]] = {
            kind: tuple(mapped.get(kind) or (usual[kind],)) for kind in KINDS
        }
        both = set(self.queues[INTERACTIVE]) & set(self.queues[BATCH])
        if both:
            left_out: Kind = INTERACTIVE if INTERACTIVE not in mapped else BATCH
            raise SettingsError(
                [
                    f"queues: expected each queue to have one kind, got {sorted(both)!r} in both, "
                    f"since {usual[left_out]!r} is the {left_out} queue unless another is named; "
                    f"name the {left_out} queues too"
                ]
            )
        self.kinds: dict[str | None, Kind] = {
            name: kind for kind in KINDS for name in self.queues[kind]
        }
        for name, kind in list(self.kinds.items()):
            self.kinds.setdefault(front_of(str(name)), kind)
        self.shards = {
            kind: tuple(shards_of(self.queues[kind][0], number)) if number > 1 else ()
            for kind, number in shards.items()
        }
        self.queues_and_shards = {
            kind: (*self.queues[kind], *self.shards.get(kind, ())) for kind in KINDS
        }
        # Those of another number too: a worker may be there to empty them.
        for kind in KINDS:
            for shard in shards_of(self.queues[kind][0], MOST_SHARDS):
                self.kinds.setdefault(shard, kind)

    def home_of(self, queue: str) -> str:
        """Return the queue of which one is a shard: the first of a kind; any other is its own."""
        home = home_of(queue)
        return home if any(home == names[0] for names in self.queues.values()) else queue

    def add_to(self, queues: Any) -> None:
        """Add what ``app.amqp.queues`` misses, declared as Celery declares missing queues."""
        for name in (*self.queues[INTERACTIVE], *self.queues[BATCH]):
            aliased = queues.aliases.get(name)
            if aliased is not None:  # messages come from it under its own name
                self.kinds[aliased.name] = self.kinds[name]
                self.kinds.setdefault(front_of(aliased.name), self.kinds[name])
            elif name not in queues:
                queues.select_add(queues.new_missing(name))
        for kind, shards in self.shards.items():
            if shards:
                self._add_shards(queues, queues[self.queues[kind][0]], kind)

    def _add_shards(self, queues: Any, home: Any, kind: Kind) -> None:
        if not may_have_front(
            home, lambda name: False
        ):  # what rules out one more queue rules out many
            raise SettingsError(
                [
                    f"{kind}_shards: expected a queue that can be spread, got {home.name!r}, which "
                    f"expires, is exclusive, keeps an order or may not be declared; "
                    f"set {kind}_shards to 1, or name another queue first"
                ]
            )
        for name in self.shards[kind]:
            if name not in queues:
                queues.select_add(shard_like(home, name))


class FairRouter:
    """The router of one publish: the app's own, then the queue of the kind.

    Passed as ``router=``, Celery's own seam: other routers and ``task_routes`` stay in place, and
    nothing is shared between threads.
    """

    def __init__(self, inner: Any, publish: Publish) -> None:
        self.inner = inner
        self.publish = publish

    def route(
        self,
        options: dict[str, Any],
        name: str,
        args: Any = (),
        kwargs: Any = None,
        task_type: Any = None,
    ) -> dict[str, Any]:
        """Return ``options`` with a destination that comes from one source only."""
        if not isinstance(self.inner, Router):  # someone's own; it has only this method for sure
            routed: dict[str, Any] = self.inner.route(options, name, args, kwargs, task_type)
        elif any(options.get(key) for key in DESTINATION):
            routed = self._explicit(options, name, args, kwargs, task_type)
        else:
            routed = self._by_route_or_kind(options, name, args, kwargs, task_type)
        self._follow(routed)
        self.publish.fair.admission.routed(self.publish)
        return self._at_front(routed) if self.publish.to_front else routed

    def _explicit(
        self, options: dict[str, Any], name: str, args: Any, kwargs: Any, task: Any
    ) -> dict[str, Any]:
        options = _whole(options, task, self.publish.fair.app.conf.task_default_priority)
        route = self._user_route(options, name, args, kwargs, task)
        elsewhere = any(
            key in route and _name(route[key]) != _name(options.get(key)) for key in DESTINATION
        )
        destination = self.inner.expand_destination({} if elsewhere else route)
        merged = lpmerge(destination, self.inner.expand_destination(dict(options)))
        if "queue" not in merged:  # an exchange or a routing key alone: as Celery does it
            default = self.inner.expand_destination(self.publish.fair.app.conf.task_default_queue)
            merged = lpmerge(default, merged)
        return dict(merged)

    def _by_route_or_kind(
        self, options: dict[str, Any], name: str, args: Any, kwargs: Any, task: Any
    ) -> dict[str, Any]:
        route = self._user_route(options, name, args, kwargs, task)
        if not any(route.get(key) for key in DESTINATION):
            header = self.publish.header
            route["queue"] = self.publish.fair.shards.queue_for(header.kind, header.tenant)
        return dict(lpmerge(self.inner.expand_destination(route), options))

    def _user_route(
        self, options: dict[str, Any], name: str, args: Any, kwargs: Any, task: Any
    ) -> dict[str, Any]:
        if not self.inner.routes:
            return {}
        found = self.inner.lookup_route(name, args, kwargs, options, task)
        # A copy: Celery takes keys out of what a router returns, and routers return what they keep.
        return {"queue": found} if isinstance(found, str) else dict(found or {})

    def _follow(self, routed: dict[str, Any]) -> None:
        """Let the kind follow a mapped queue: the worker serves a message by its queue's lane."""
        publish = self.publish
        queue = publish.queue = _name(routed.get("queue"))
        lane = publish.fair.lanes.get(queue)
        if lane is None or lane == publish.header.kind:
            return
        if publish.asked is None and publish.kept is None:
            publish.header = publish.header._replace(kind=lane, inherited=False)
            publish.source = "queue"
            routed["headers"] = _with_line(routed.get("headers"), publish.header.as_line())
            for errback in publish.marked:
                errback["options"]["kind"] = lane
        elif publish.asked is not None:
            publish.fair.warn_lane(publish.name, publish.asked, queue, lane)

    def _at_front(self, routed: dict[str, Any]) -> dict[str, Any]:
        """Send it to the front of its queue, where that has one; a retry, of where it was."""
        publish = self.publish
        queue = self._plain_queue(routed)
        if queue is None or publish.came_from not in (None, queue.name):
            return routed
        queue = self.publish.fair.whole(queue)
        if not may_have_front(queue, publish.fair.is_part):
            return routed
        if not publish.fair.fronts.takes(queue.name, publish.options):
            return routed
        publish.queue = front_of(queue.name)
        rest = {key: value for key, value in routed.items() if key not in DESTINATION}
        # Its workers have declared it, as they found the queue at the broker.
        return {**rest, "queue": front_like(queue), "declare": []}

    def _plain_queue(self, routed: Mapping[str, Any]) -> Any:
        """Return the one queue that a destination reaches, if it is surely no more than that."""
        queue, exchange = routed.get("queue"), _name(routed.get("exchange"))
        key = routed.get("routing_key")
        if exchange is not None:  # back the way it came, by the exchange that Celery gives a queue
            queues = self.publish.fair.app.amqp.queues
            queue = queues[key] if exchange == key and key in queues else None
        if queue is None or key not in (None, queue.name):
            return None
        if routed.get("exchange_type") not in (None, queue.exchange.type):
            return None
        if exchange is None and queue.exchange.type == "direct":
            return queue  # Celery sends it straight to the queue, whatever is bound to the exchange
        own = queue.exchange.name == queue.name == queue.routing_key
        # What waits for its time is delayed by the broker there, which follows bindings.
        delayed = self.publish.options.get("countdown") or self.publish.options.get("eta")
        return queue if own and not delayed else None


def going_on(fair: Fair, came: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return where to send what goes on with a message that came that way: before what waits there.

    ``came`` is its ``delivery_info``, ``options`` are those of the publish. Where its queue has no
    front, it is sent to the queue itself.
    """
    key, exchange, queues = came.get("routing_key"), came.get("exchange"), fair.app.amqp.queues
    priority = {} if came.get("priority") is None else {"priority": came["priority"]}
    name = behind(key) if key and is_front(key) and key not in queues else key
    queue: Any = queues.get(name)
    plain = queue is not None and (not exchange or exchange == queue.exchange.name == name)
    queue = fair.whole(queue) if plain else queue
    if plain and may_have_front(queue, fair.is_part) and fair.fronts.takes(queue.name, options):
        return {**priority, "queue": front_like(queue), "declare": []}
    if exchange:
        return {**priority, "exchange": exchange, "routing_key": key, "declare": []}
    return {**priority, "queue": Queue(name, Exchange(""), name), "declare": []}


def _with_line(headers: Mapping[str, Any] | None, line: str) -> dict[str, Any]:
    """Tracers copy the headers on their way here, and put the copy among them once more."""
    written = {**(headers or {}), NAME: line}
    copied = written.get("headers")
    if isinstance(copied, Mapping) and NAME in copied:
        written["headers"] = {**copied, NAME: line}
    return written


def _whole(options: dict[str, Any], task: Any, default_priority: object) -> dict[str, Any]:
    """Leave out what the decorator said of *its* queue when the call names another one."""
    queue, own = _name(options.get("queue")), _name(getattr(task, "queue", None))
    if task is None or queue is None or queue == own:
        return dict(options)
    stale = {key: getattr(task, key, None) for key in ("exchange", "routing_key")}
    if own is not None and getattr(task, "priority", None) != default_priority:
        stale["priority"] = task.priority
    return {
        key: value
        for key, value in options.items()
        if key not in stale or stale[key] is None or value != stale[key]
    }


def _name(queue: Any) -> str | None:
    name = getattr(queue, "name", queue)
    return name or None
