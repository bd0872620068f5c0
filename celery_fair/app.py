"""`Fair`: celery-fair in one Celery app."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from celery import Celery, current_app, signals
from celery.local import Proxy

from celery_fair.admission import Admission
from celery_fair.admission.canvas import producer_or_acquire, put_off
from celery_fair.ambient import everything_is, inherit
from celery_fair.errors import AlreadyInstalled, NotInstalled
from celery_fair.front import Fronts, behind, is_front, whole_of
from celery_fair.globs import Globs
from celery_fair.headers import NAME
from celery_fair.hints import HintsMixin
from celery_fair.identity import Identity, is_asked
from celery_fair.jobs.jobs import Jobs
from celery_fair.jobs.mixin import JobsMixin
from celery_fair.observer import Observer, Observers, TaskInfo
from celery_fair.options import declared_kind, known_kind, own_options
from celery_fair.policy.kinds import Kind
from celery_fair.publish import CHORD_UNLOCK, Publish
from celery_fair.resources.mixin import ResourcesMixin
from celery_fair.resources.resources import Resources
from celery_fair.retrying import Retrying
from celery_fair.routing import FairRouter, Lanes
from celery_fair.settings import FairSettings
from celery_fair.sharding.choice import Shards
from celery_fair.task import (
    ATTRIBUTE,
    ON_COMMIT,
    FairTask,
    apply_here,
    call_on_commit,
    installed,
    retry_here,
    with_fair_task,
)
from celery_fair.yielding.mixin import YieldingMixin
from celery_fair.yielding.runs import Runs

if TYPE_CHECKING:
    from celery_fair.doctor import Finding

logger = logging.getLogger(__name__)

#: ``send_task`` takes options by position too; these are the names behind name, args and kwargs.
_POSITIONAL = Celery.send_task.__code__.co_varnames[4 : Celery.send_task.__code__.co_argcount]


class Fair(HintsMixin, JobsMixin, YieldingMixin, ResourcesMixin):
    """Installs celery-fair into a Celery app: ``Fair(app)``, or ``Fair().init_app(app)``.

    Keyword arguments are settings (`FairSettings`); they beat ``app.conf.fair``, and the
    environment beats both. The settings are read at the first publish or at worker start, never
    here, so that the app's configuration may come later.
    """

    def __init__(self, app: Any = None, **settings: Any) -> None:
        self._overrides = settings
        self._app: Any = None
        self._settings: FairSettings | None = None
        self._lanes: Lanes | None = None
        self._globs: Globs[Kind] | None = None
        self._warned: set[tuple[str, str]] = set()
        self.observers = Observers()
        self.fronts = Fronts(self)
        self.retrying = Retrying(self)
        self.runs = Runs(self)
        self.identity = Identity(self)
        self.admission = Admission(self)
        self.shards = Shards(self)
        self.jobs = Jobs(self)
        self.resources = Resources(self)
        self._undo: list[Callable[[], None]] = []
        if app is not None:
            self.init_app(app)

    @staticmethod
    def of(app: Any) -> Fair | None:
        """Return the Fair that is installed in ``app``, or None."""
        return installed(app)

    @property
    def app(self) -> Any:
        """The Celery app; raises `NotInstalled` before ``init_app``."""
        if self._app is None:
            raise NotInstalled("this Fair() was given no app yet")
        return self._app

    def __repr__(self) -> str:
        return f"<Fair of {self._app!r}>"

    # -- installing ------------------------------------------------------------------------------

    def init_app(self, app: Any) -> None:
        """Install into ``app``; once is enough, and other settings a second time are an error."""
        if isinstance(app, Proxy):  # current_app may be another one in the next thread
            app = app._get_current_object()
        present = installed(app)
        if present is not None and present._overrides == self._overrides and self._app is None:
            # A module imported twice: both names stand for one installation.
            self.__dict__ = present.__dict__
            return
        if present is self:
            return
        if present is not None or self._app is not None:
            raise AlreadyInstalled(app)
        self._app = app
        self._replace(app, ATTRIBUTE, self)
        before = vars(app).get("send_task") or functools.partial(_send_as_celery, app)
        self._replace(app, "send_task", functools.partial(self._send_task, app, before))
        acquire = vars(app).get("producer_or_acquire") or functools.partial(_acquire, app)
        opening = functools.partial(producer_or_acquire, self, acquire)
        self._replace(app, "producer_or_acquire", opening)
        self._replace(app, "Task", with_fair_task(app.Task))
        self._replace(app.amqp, "Queues", self._make_queues)
        if "queues" in vars(app.amqp):
            self._add_queues(app.amqp.queues)
        self._connect(signals.worker_init, self._on_worker_init)
        self._connect(signals.worker_process_init, self._on_process_init)
        self._connect(app.on_after_finalize, self._on_finalize)
        if app.finalized:
            self._on_finalize(app)

    def uninstall(self) -> None:
        """Leave the app as it was found; messages already published keep their header."""
        while self._undo:
            self._undo.pop()()
        self.jobs.close()
        self.resources.close()
        self.identity.close()
        self.admission.close()
        self._app = None

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)

        def undo() -> None:
            if vars(owner).get(name) is value or vars(owner).get(name) == value:
                if before is _ABSENT:
                    del vars(owner)[name]
                else:
                    vars(owner)[name] = before

        self._undo.append(undo)

    def _connect(self, signal: Any, receiver: Callable[..., None]) -> None:
        # Celery < 5.7 takes the methods of two instances for one, and drops the second.
        uid = f"celery_fair.{receiver.__name__}.{id(self)}"
        signal.connect(receiver, dispatch_uid=uid)
        self._undo.append(lambda: signal.disconnect(receiver, dispatch_uid=uid))

    def _on_worker_init(self, sender: Any = None, **_: Any) -> None:
        """Add the bootsteps: here, so that publishers never import the worker package.

        Celery logs what a signal's receiver raises and goes on, as a worker that only looks like
        ours. So whatever goes wrong here ends it, with a sentence.
        """
        if sender is None or sender.app is not self._app:
            return
        try:
            self._add_steps()
        except Exception as error:
            logger.debug("celery-fair could not be set up", exc_info=True)
            raise SystemExit(f"The worker can't start with celery-fair: {error}") from error

    def _on_process_init(self, sender: Any = None, **_: Any) -> None:
        """Install into the copy of the app that Celery gives a process which is started anew.

        It runs the tasks; so what they publish, retry and report is to be as in a forked one.
        """
        if not self.runs.is_started_anew or self._app is None:
            return
        copy = current_app._get_current_object()
        fair = installed(copy)
        if fair is None and copy.main == self._app.main:
            fair = Fair(copy, **self._overrides)
            fair.observers = self.observers
            if fair.settings.mode == "enforce":
                fair.fronts.served = True
                fair.retrying.open()
        if fair is not None and fair.runs.is_started_anew:
            fair.runs.join(str(sender))

    def _add_steps(self) -> None:
        if not self.settings.enabled:
            return
        from celery_fair.observe import spans
        from celery_fair.worker.steps import CONSUMER_STEPS

        steps = self._app.steps["consumer"]
        added = set(CONSUMER_STEPS) - steps
        if added:
            loader = self._app.loader
            marked = functools.partial(spans.on_task_init, self, loader.on_task_init)
            self._replace(loader, "on_task_init", marked)
        steps.update(added)
        self._undo.append(lambda: steps.difference_update(added))

    def _on_finalize(self, sender: Any, **_: Any) -> None:
        """Reach the tasks whose base class isn't the app's own."""
        for task in sender.tasks.values():
            if not isinstance(task, FairTask):
                task.apply = functools.partial(apply_here, task, task.apply)
                task.retry = functools.partial(retry_here, task, task.retry)
                for name in ON_COMMIT:
                    if hasattr(type(task), name):
                        method = getattr(type(task), name)
                        setattr(task, name, functools.partial(call_on_commit, task, method))

    # -- what was set ----------------------------------------------------------------------------

    @property
    def settings(self) -> FairSettings:
        """The settings, read at the first look; raises `SettingsError` for a bad one."""
        if self._settings is None:
            conf = self.app.conf.get("fair")
            self._settings = FairSettings.load(
                {} if conf is None else conf, self._overrides, os.environ
            )
        return self._settings

    def adopt(self, settings: FairSettings) -> None:
        """Go by these from now on, in this process: a worker's, in which some were set live."""
        self._settings = settings
        self.resources.follow()

    @property
    def _lane_map(self) -> Lanes:
        if self._lanes is None:
            settings, default = self.settings, self.app.conf.task_default_queue
            self._lanes = Lanes(settings.queues, default, settings.shards)
        return self._lanes

    @property
    def queues(self) -> Mapping[Kind, tuple[str, ...]]:
        """The queues of each kind; tasks of the kind are sent to the first, or to its shards."""
        return self._lane_map.queues

    @property
    def queues_and_shards(self) -> Mapping[Kind, tuple[str, ...]]:
        """The same, with the shards."""
        return self._lane_map.queues_and_shards

    @property
    def lanes(self) -> Mapping[str | None, Kind]:
        """The kind of each queue that is mapped to one."""
        return self._lane_map.kinds

    @property
    def globs(self) -> Globs[Kind]:
        """The kinds of names."""
        if self._globs is None:
            self._globs = Globs(self.settings.kinds)
        return self._globs

    def whole(self, queue: Any) -> Any:
        """Return the ``kombu.Queue`` of which one is a shard; any other is its own."""
        name, queues = self._lane_map.home_of(queue.name), self.app.amqp.queues
        return queue if name == queue.name else queues.aliases.get(name) or queues.get(name, queue)

    @classmethod
    def knows_part(cls, app: Celery) -> Callable[[str], bool]:
        """Return `is_part` of an app's `Fair`; where it has none, names tell."""
        fair = cls.of(app)
        return fair.is_part if fair is not None else lambda queue: whole_of(queue) != queue

    def is_part(self, queue: str) -> bool:
        """Whether a queue is a shard or the front of another one that this app knows.

        Else it is a queue like any other, though its name may end as theirs do.
        """
        if is_front(queue):
            return behind(queue) in self.app.amqp.queues
        return self._lane_map.home_of(queue) != queue

    def kind_of_queue(self, name: str) -> Kind:
        """Return the lane of a queue; one that nobody mapped has the default kind."""
        return self.lanes.get(name) or self.settings.default_kind

    def kind_of_task(self, name: str, task: Any = None) -> Kind | None:
        """Return what is declared for a task: by itself, else by the ``kinds`` globs, else None."""
        task = task if task is not None else self.registered(name)
        own = declared_kind(task) if task is not None else None
        return own if own is not None else self.globs.find(name)

    def registered(self, name: str) -> Any:
        """Return the task of that name if this process knows it."""
        app = self.app
        return app.tasks.get(name) if app.finalized or app.autofinalize else None

    # -- around a block of code ------------------------------------------------------------------

    @staticmethod
    def kind(kind: Kind) -> AbstractContextManager[None]:
        """Publish everything inside the block as ``kind``, children included."""
        return everything_is(kind)

    @staticmethod
    def inherit(
        kind: Kind | None = None, *, tenant: object = None, request_id: object = None
    ) -> AbstractContextManager[None]:
        """Publish what is inside the block as a running task of that kind and identity would."""
        return inherit(kind, tenant=tenant, request_id=request_id)

    # -- publishing ------------------------------------------------------------------------------

    def _send_task(
        self,
        app: Any,
        send: Callable[..., Any],
        name: str,
        args: Any = None,
        kwargs: Any = None,
        *rest: Any,
        **options: Any,
    ) -> Any:
        """``app.send_task``, by which every task message leaves; ``send`` is what stood there."""
        options.update(zip(_POSITIONAL, rest, strict=False))
        if installed(app) is not self or not self.settings.enabled:
            # Switched off, or uninstalled under someone else's wrapper.
            _drop(options)
            return send(name, args, kwargs, **options)
        if name == CHORD_UNLOCK and self._is_first(options) and args:
            later = functools.partial(self._send, app, send, name, args, kwargs, options)
            if put_off(args[0], options, later):
                return app.AsyncResult(options["task_id"])
        return self._send(app, send, name, args, kwargs, options)

    def _is_first(self, options: Mapping[str, Any]) -> bool:
        """Whether a chord's unlocking is the first that is published of it, and may be refused."""
        starts = options.get("parent_id") is None and not options.get("retries")
        return bool(self.admission.limits) and starts and self.app.current_worker_task is None

    def _send(
        self, app: Any, send: Callable[..., Any], name: str, args: Any, kwargs: Any, options: Any
    ) -> Any:
        publish = self.prepare(name, args, kwargs, options)
        claim = publish.claim
        if claim is not None and not claim.is_sent:
            return claim.handle(app, options)
        with claim or _UNTRACED, _traced(publish, name):
            result = send(name, args, kwargs, **options)
        if "queued" in self.observers.hooks:
            self.observers.tell("queued", _queued(publish, name, result.id))
        return result

    def admit(self, kind: Kind) -> None:
        """Raise `QueueFull` where a task of ``kind`` would be refused now; publishes nothing.

        For views that ask before they do work, and for tasks that publish many others: these are
        never refused by themselves.
        """
        if self.settings.enabled:
            self.admission.ask(known_kind(kind, "admit(…)"))

    def findings(self) -> list[Finding]:
        """Return what ``fair doctor --no-broker`` finds in the app; imports its tasks."""
        from celery_fair.doctor import app_findings

        return app_findings(self.app)

    def add_observer(self, observer: Observer) -> None:
        """Have the hooks of ``observer`` called, in this process and in workers started from it."""
        self.observers.add(observer)

    def remove_observer(self, observer: Observer) -> None:
        """Call its hooks no more; it need not be one that was added."""
        self.observers.remove(observer)

    def prepare(self, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Publish:
        """Turn our options of a ``send_task`` into a header and a router."""
        publish = Publish(self, name, options.get("task_type"), args, kwargs, options, time.time())
        if is_asked(publish):
            publish.claim = self.identity.claim(name, publish)
        publish.mark_errbacks()
        publish.release_queue()
        publish.forget_state()
        options["headers"] = {**(options.get("headers") or {}), NAME: publish.header.as_line()}
        inner = options.get("router") or self.app.amqp.router
        options["router"] = FairRouter(inner, publish)
        return publish

    def prepare_eager(self, task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        """Give an eager call the header that its message would have had; no broker is asked."""
        if not self.settings.enabled:
            _drop(options)
            return
        publish = Publish(self, task.name, task, args, kwargs, options, time.time())
        options["headers"] = {**(options.get("headers") or {}), NAME: publish.header.as_line()}

    def warn_lane(self, task: str, asked: Kind, queue: str | None, lane: Kind) -> None:
        """Say once a task that its queue belongs to the other kind."""
        if (task, str(queue)) in self._warned:
            return
        self._warned.add((task, str(queue)))
        logger.warning(
            "%s was called with kind=%r, but its queue %r is %s and the queue wins: "
            "call it without that queue, or take the queue out of its decorator or task_routes",
            task,
            asked,
            queue,
            lane,
        )

    # -- queues ----------------------------------------------------------------------------------

    def _make_queues(self, *args: Any, **kwargs: Any) -> Any:
        """``app.amqp.Queues``, which makes ``app.amqp.queues``: with ours from the start.

        From the start, because ``-Q`` and ``-X`` are applied to what is there by then.
        """
        queues = type(self.app.amqp).Queues(self.app.amqp, *args, **kwargs)
        self._add_queues(queues)
        return queues

    def _add_queues(self, queues: Any) -> None:
        if self.settings.enabled:
            self._lane_map.add_to(queues)


def _queued(publish: Publish, name: str, id: str) -> TaskInfo:
    header = publish.header
    return TaskInfo(header.kind, name, id, publish.queue, header.ready_at)


def _traced(publish: Publish, name: str) -> AbstractContextManager[None]:
    """Mark the span of a publish, where the application has loaded what makes one."""
    if "opentelemetry.trace" not in sys.modules:
        return _UNTRACED
    from celery_fair.observe import spans

    return spans.publishing(publish, name)


_UNTRACED = nullcontext()
_ABSENT = object()


def _send_as_celery(app: Any, *args: Any, **options: Any) -> Any:
    # Looked up at each call: tracers patch the class, some of them after us.
    return type(app).send_task(app, *args, **options)


def _acquire(app: Any, producer: Any = None) -> Any:
    return type(app).producer_or_acquire(app, producer)


def _drop(options: dict[str, Any]) -> None:
    """Take our options out and do nothing with them: celery-fair is switched off."""
    for option in own_options(options):
        del options[option]
