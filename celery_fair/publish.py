"""One publish: its kind and its header. `docs/settings.md` has the table of who decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from celery.utils.functional import maybe_list

from celery_fair.ambient import NOTHING, ambient, bounded, hidden
from celery_fair.front import behind, is_front
from celery_fair.globs import BUILT_IN
from celery_fair.headers import FairHeader
from celery_fair.moments import epoch_of, seconds_of
from celery_fair.options import known_kind, known_timeout, own_options
from celery_fair.policy.kinds import INTERACTIVE, Kind
from celery_fair.resources.declaring import known_tokens
from celery_fair.yielding.words import HEADER as STATE

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.identity import Claim

CHORD_UNLOCK: Final = "celery.chord_unlock"
MAPS: Final = ("celery.map", "celery.starmap")

Source = Literal["call", "attempt", "block", "parent", "task", "body", "default", "queue"]
"""What a kind came from; `docs/logs-and-traces.md` explains the words."""


class Publish:
    """One publish: what the call asked for, what runs around it, and the header that follows."""

    def __init__(
        self,
        fair: Fair,
        name: str,
        task: Any,
        args: Any,
        kwargs: Any,
        options: dict[str, Any],
        now: float,
    ) -> None:
        """Take our own options out of ``options``; raises `UnknownKind` for a bad ``kind=``."""
        asked = {option: options.pop(option) for option in own_options(options)}
        self.fair = fair
        mapped = _mapped(name, kwargs)
        self.name = mapped or name
        self.task = None if mapped else task
        self.args = args
        self.kwargs = kwargs
        self.options = options
        self.now = now
        kind = asked.get("kind")
        self.asked: Kind | None = (
            None if kind is None else known_kind(kind, f"kind= of {self.name}")
        )
        self.parent = fair.app.current_worker_task
        self.running = None if self.parent is None else running_header(fair, self.parent, now)
        self.kept = self._kept()
        self.around = ambient.get() or NOTHING
        self.source: Source
        self.header = self._header(asked)
        self.marked: list[dict[str, Any]] = []
        self.queue: str | None = None
        """Where it went, once it has been routed."""
        self.came_from = self._came_from()
        """The queue of the attempt that this one goes on with, if it goes on from here."""
        self.to_front = self.around.to_front or self._is_urgent_retry()
        """Whether it goes before what waits in its queue."""
        self.claim: Claim | None = None
        """Of a request that is known by its id."""

    def _came_from(self) -> str | None:
        if self.parent is None or not self.options.get("retries"):
            return None
        request = self.parent.request
        if request.is_eager or request.id != self.options.get("task_id"):
            return None
        queue: str | None = (request.delivery_info or {}).get("routing_key")
        return behind(queue) if queue is not None and self._is_ours(queue) else queue

    def _is_ours(self, queue: str) -> bool:
        """Whether it is the front of another queue, and not one that happens to be called so."""
        return is_front(queue) and queue not in self.fair.app.amqp.queues

    def _is_urgent_retry(self) -> bool:
        """Somebody waits for it, and has waited for the first attempt: not behind all others."""
        if self.came_from is None or not self.fair.fronts.served:
            return False
        kind = self.fair.lanes.get(self.came_from) or self.header.kind
        return kind == INTERACTIVE == self.header.kind

    def _header(self, asked: Mapping[str, Any]) -> FairHeader:
        kind, covers_children, self.source = self._kind()
        return FairHeader(
            kind=kind,
            first_published=self.kept.first_published if self.kept else self.now,
            ready_at=self._ready_at(),
            request_id=bounded(asked.get("request_id")) or self._inherited("request_id"),
            tenant=self._tenant(bounded(asked.get("tenant"))),
            covers_children=covers_children,
            inherited=self._is_inherited(),
            timeout_seconds=self._timeout(asked.get("timeout_seconds")),
            # What replaces a task is another one; a retry is the same request.
            once=self.kept.once if self.kept and self.options.get("retries") else None,
            yields=self.kept.yields if self.kept and self.options.get("retries") else 0,
            tokens=self._tokens(asked.get("tokens")),
        )

    def _tokens(self, asked: object) -> int:
        """Return how many it is thought to use: a retry as many as the attempt before it."""
        if asked is not None:
            return known_tokens(asked, f"tokens= of {self.name}")
        if self.kept is not None and self.options.get("retries"):
            return self.kept.tokens
        return self.fair.resources.estimate(self.name, self.task, self.args, self.kwargs)

    def _timeout(self, seconds: object) -> float | None:
        """Return how long each attempt may wait; what the task declares, its worker knows."""
        if seconds is not None:
            return known_timeout(seconds, f"timeout_seconds= of {self.name}")
        return self.kept.timeout_seconds if self.kept is not None else None

    def _tenant(self, asked: str | None) -> str | None:
        """Return whose work this is; hashed where it is first said, so what is inherited is too."""
        said = asked or (self.around.tenant if self.kept is None else None)
        if said is not None and said is not asked and self.around.is_hidden:
            return said
        return hidden(said, self.fair.settings.tenant_hash_key) or self._inherited("tenant")

    def _inherited(self, name: Literal["request_id", "tenant"]) -> str | None:
        """Return what the attempt had, else the block says, else the parent."""
        if self.kept is not None:
            found: str | None = getattr(self.kept, name)
            return found
        return getattr(self.around, name) or getattr(self.running, name, None)

    def _is_inherited(self) -> bool:
        if self.source == "attempt" and self.kept is not None:
            return self.kept.inherited
        return self.source == "parent"

    def _kind(self) -> tuple[Kind, bool, Source]:
        """Return the kind, whether it covers children, and the first source that knows it."""
        if self.asked is not None:
            return self.asked, False, "call"
        if self.kept is not None:
            return self.kept.kind, self.kept.covers_children, "attempt"
        around = self.around.kind
        if around is not None and self.around.covers_children:
            return around, True, "block"
        if self.running is not None and self.running.covers_children:
            return self.running.kind, True, "parent"
        declared = self.fair.kind_of_task(self.name, self.task)
        if declared is not None:
            return declared, False, "task"
        kind, source = self._callers_kind(around)
        return kind, False, source

    def _callers_kind(self, around: Kind | None) -> tuple[Kind, Source]:
        """Return what an undeclared task gets: the kind of the code around it, else the default."""
        if self.name == CHORD_UNLOCK and _body_kind(self.fair, self.args) == INTERACTIVE:
            # Someone may wait for the body, and this poll is what starts it.
            return INTERACTIVE, "body"
        if around is not None:
            return around, "block"
        if self.running is not None:
            return self.running.kind, "parent"
        built_in = self.name.startswith(BUILT_IN)
        return INTERACTIVE if built_in else self.fair.settings.default_kind, "default"

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
        at: float | None = None
        if countdown:  # Celery prefers it to an ETA
            seconds = seconds_of(countdown)
            at = None if seconds is None else self.now + seconds
        elif eta:
            at = epoch_of(eta, self.fair.app)
        return self.now if at is None else max(self.now, at)

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

    def forget_state(self) -> None:
        """Drop how far the attempt before had come as it yielded, where this has other arguments.

        Celery copies its headers; whoever retries with a next page means that from its beginning.
        """
        headers = self.options.get("headers")
        if self.parent is None or not headers or STATE not in headers:
            return
        request = self.parent.request
        before = (list(request.args or ()), dict(request.kwargs or {}))
        if (
            request.headers
            and STATE in request.headers
            and not _are_same(before, (list(self.args or ()), dict(self.kwargs or {})))
        ):
            self.options["headers"] = {k: v for k, v in headers.items() if k != STATE}

    def release_queue(self) -> None:
        """Drop a queue that Celery named for its own reasons, where the kind should decide."""
        options = self.options
        queue = options.get("queue")
        if self.came_from is not None and isinstance(queue, str) and self._is_ours(queue):
            # Celery sends a retry back to where it came from: to a front that it doesn't know.
            options["queue"] = behind(queue)
        if self.name == CHORD_UNLOCK and not options.get("retries"):
            body = _body(self.args)
            if not _own_queue(self.fair, body):
                options.pop("queue", None)
                if "exchange_type" not in body.get("options", {}):
                    options.pop("exchange_type", None)
        elif self.asked and self.kept and self.asked != self.kept.kind and options.get("retries"):
            # A retry is sent back to where it came from; this one is to change its lane.
            came = self.parent.request.delivery_info or {} if self.parent is not None else {}
            if options.get("queue") in (came.get("routing_key"), self.came_from):
                options.pop("queue", None)
            for key in ("exchange", "routing_key"):
                if options.get(key) == came.get(key):
                    options.pop(key, None)


def running_header(fair: Fair, task: Any, now: float) -> FairHeader:
    """Return the header of a running task; without one, its queue or declaration tells the kind."""
    request = task.request
    found = FairHeader.read(request.headers)
    if found is not None:
        return found
    queue = (request.delivery_info or {}).get("routing_key")
    kind = fair.lanes.get(queue) or fair.kind_of_task(task.name, task) or fair.settings.default_kind
    return FairHeader(kind=kind, first_published=now, ready_at=now)


def _are_same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # arguments are anything, arrays for instance
        return False


def _mapped(name: str, kwargs: Any) -> str | None:
    """Return which task a ``celery.map`` or ``celery.starmap`` runs; chunks are starmaps."""
    inner = kwargs.get("task") if name in MAPS and isinstance(kwargs, Mapping) else None
    return inner.get("task") if isinstance(inner, Mapping) else None


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
