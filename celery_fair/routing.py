"""From a publish to its kind, its header and its queue. `docs/settings.md` has the two tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from celery.app.routes import Router
from celery.utils.collections import lpmerge
from celery.utils.functional import maybe_list
from celery.utils.time import maybe_iso8601, maybe_make_aware

from celery_fair.headers import MAX_TEXT, FairHeader
from celery_fair.policy.kinds import INTERACTIVE, Kind
from celery_fair.task import ambient, known_kind, own_options

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: Celery's own tasks; they serve others, so they never choose batch by themselves.
BUILT_IN: Final = "celery."
CHORD_UNLOCK: Final = "celery.chord_unlock"

#: What names a place to publish to. A route is followed whole or not at all in these.
DESTINATION: Final = ("queue", "exchange", "routing_key")


class Publish:
    """One publish: what the call asked for, what runs around it, and the header that follows."""

    def __init__(
        self, fair: Fair, name: str, task: Any, args: Any, options: dict[str, Any], now: float
    ) -> None:
        """Take our own options out of ``options``; raises `UnknownKind` for a bad ``kind=``."""
        asked = {option: options.pop(option) for option in own_options(options)}
        self.fair = fair
        self.name = name
        self.task = task
        self.args = args
        self.options = options
        self.now = now
        kind = asked.get("kind")
        self.asked: Kind | None = None if kind is None else known_kind(kind, f"kind= of {name}")
        self.parent = fair.app.current_worker_task
        self.running = None if self.parent is None else _running(fair, self.parent, now)
        self.kept = self._kept()
        self.header = self._header(asked.get("request_id"), asked.get("tenant"))
        self.marked: list[dict[str, Any]] = []

    def _header(self, request_id: object, tenant: object) -> FairHeader:
        kind, covers_children = self._kind()
        source = self.kept or self.running
        return FairHeader(
            kind=kind,
            first_published=self.kept.first_published if self.kept else self.now,
            ready_at=self._ready_at(),
            request_id=_text(request_id) or (source.request_id if source else None),
            tenant=_text(tenant) or (source.tenant if source else None),
            covers_children=covers_children,
        )

    def _kind(self) -> tuple[Kind, bool]:
        """Return the kind and whether it covers children; the first source that knows wins."""
        if self.asked is not None:
            return self.asked, False
        if self.kept is not None:
            return self.kept.kind, self.kept.covers_children
        around = ambient.get()
        if around is not None and around.covers_children:
            return around.kind, True
        if self.running is not None and self.running.covers_children:
            return self.running.kind, True
        declared = self.fair.kind_of_task(self.name, self.task)
        if declared is not None:
            return declared, False
        return self._callers_kind(around.kind if around is not None else None), False

    def _callers_kind(self, around: Kind | None) -> Kind:
        """Return what an undeclared task gets: the kind of the code around it, else the default."""
        kind = around or (self.running.kind if self.running is not None else None)
        if not self.name.startswith(BUILT_IN):
            return kind or self.fair.settings.default_kind
        if self.name == CHORD_UNLOCK and _body_kind(self.fair, self.args) == INTERACTIVE:
            # Someone may wait for the body, and this poll is what starts it.
            return INTERACTIVE
        return kind or INTERACTIVE

    def _kept(self) -> FairHeader | None:
        """Return the header of the attempt that this publish goes on with (retry, replace)."""
        request = self.parent.request if self.parent is not None else None
        if self.options.get("retries"):
            # Celery copies the headers of the first attempt, unless the retry has its own.
            carried = FairHeader.read(self.options.get("headers"))
            same = request is not None and request.id == self.options.get("task_id")
            return carried or (self.running if same else None)
        nesting = self.options.get("replaced_task_nesting") or 0
        # Deeper than the running task: the replacement itself. As deep: what follows it in a chain.
        if request is not None and nesting > (request.get("replaced_task_nesting") or 0):
            return self.running
        return None

    def _ready_at(self) -> float:
        """Return when this attempt can first run: now, or at its countdown or ETA."""
        countdown, eta = self.options.get("countdown"), self.options.get("eta")
        try:
            if countdown:  # Celery prefers it to an ETA
                return max(self.now, self.now + float(countdown))
            if eta:
                moment = maybe_make_aware(maybe_iso8601(eta), self.fair.app.timezone)
                return max(self.now, float(moment.timestamp()))
        except (TypeError, ValueError, OverflowError, AttributeError):
            pass  # Celery says what is wrong with it
        return self.now

    def mark_errbacks(self) -> None:
        """Write the kind into errbacks that would inherit it.

        The main process of a worker publishes those of a task whose child was killed or ran out of
        time. No task is running there to inherit from.
        """
        errbacks = maybe_list(self.options.get("link_error"))
        if errbacks:
            self.options["link_error"] = [self._marked(errback) for errback in errbacks]

    def _marked(self, errback: Any) -> Any:
        if not isinstance(errback, Mapping) or errback.get("subtask_type"):
            return errback
        options = errback.get("options") or {}
        declared = self.fair.kind_of_task(errback.get("task") or "")
        if "kind" in options or (declared is not None and not self.header.covers_children):
            return errback
        marked = {**errback, "options": {**options, "kind": self.header.kind}}
        self.marked.append(marked)
        return marked

    def release_queue(self) -> None:
        """Drop a queue that Celery named for its own reasons, where the kind should decide."""
        options = self.options
        if self.name == CHORD_UNLOCK and not options.get("retries"):
            body = _body(self.args)
            if not _own_queue(self.fair, body):
                options.pop("queue", None)
                if "exchange_type" not in body.get("options", {}):
                    options.pop("exchange_type", None)
        elif self.asked and self.kept and self.asked != self.kept.kind and options.get("retries"):
            # A retry is sent back to where it came from; this one is to change its lane.
            came = self.parent.request.delivery_info or {} if self.parent is not None else {}
            if options.get("queue") == came.get("routing_key"):
                options.pop("queue", None)
            for key in ("exchange", "routing_key"):
                if options.get(key) == came.get(key):
                    options.pop(key, None)


class FairRouter:
    """The router of one publish: the app's own, then the queue of the kind.

    Passed as ``router=``, Celery's own seam: other routers and ``task_routes`` stay in place, and
    nothing is shared between threads.
    """

    def __init__(self, inner: Any, publish: Publish, header: dict[str, Any]) -> None:
        self.inner = inner
        self.publish = publish
        self.header = header

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
        self._follow(_name(routed.get("queue")))
        return routed

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
            route["queue"] = self.publish.fair.queues[self.publish.header.kind][0]
        return dict(lpmerge(self.inner.expand_destination(route), options))

    def _user_route(
        self, options: dict[str, Any], name: str, args: Any, kwargs: Any, task: Any
    ) -> dict[str, Any]:
        if not self.inner.routes:
            return {}
        found = self.inner.lookup_route(name, args, kwargs, options, task)
        # A copy: Celery takes keys out of what a router returns, and routers return what they keep.
        return {"queue": found} if isinstance(found, str) else dict(found or {})

    def _follow(self, queue: str | None) -> None:
        """Let the kind follow a mapped queue: the worker serves a message by its queue's lane."""
        publish = self.publish
        lane = publish.fair.lanes.get(queue) if queue is not None else None
        if lane is None or lane == self.header["kind"]:
            return
        if publish.asked is None and publish.kept is None:
            self.header["kind"] = lane
            for errback in publish.marked:
                errback["options"]["kind"] = lane
        elif publish.asked is not None:
            publish.fair.warn_lane(publish.name, publish.asked, queue, lane)


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


def _running(fair: Fair, task: Any, now: float) -> FairHeader:
    """Return the header of a running task; without one, its queue or declaration tells the kind."""
    request = task.request
    found = FairHeader.read(request.headers)
    if found is not None:
        return found
    queue = (request.delivery_info or {}).get("routing_key")
    kind = fair.lanes.get(queue) or fair.kind_of_task(task.name, task) or fair.settings.default_kind
    return FairHeader(kind=kind, first_published=now, ready_at=now)


def _body(args: Any) -> Mapping[str, Any]:
    """Return the body of the chord that a ``celery.chord_unlock`` waits for."""
    body = args[1] if args and len(args) > 1 else None
    return body if isinstance(body, Mapping) else {}


def _body_kind(fair: Fair, args: Any) -> Kind | None:
    body = _body(args)
    kind = body.get("options", {}).get("kind")
    while kind is None and body.get("task") == "celery.chain":
        body = body["kwargs"]["tasks"][0]
        kind = body.get("options", {}).get("kind")
    return known_kind(kind) if kind is not None else fair.kind_of_task(body.get("task") or "")


def _own_queue(fair: Fair, body: Mapping[str, Any]) -> bool:
    if body.get("options", {}).get("queue"):
        return True
    task = fair.registered(body.get("task") or "")
    return getattr(task, "queue", None) is not None


def _name(queue: Any) -> str | None:
    name = getattr(queue, "name", queue)
    return name or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:MAX_TEXT]
