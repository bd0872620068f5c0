"""`fair_task`, and what a task class of ours does beside Celery's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, overload

from celery import shared_task

from celery_fair.ambient import ambient, saying
from celery_fair.errors import NotInstalled, UnknownKind
from celery_fair.options import known_keeping, known_kind, known_timeout, own_options
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.resources.declaring import known_tokens, known_uses

if TYPE_CHECKING:
    from celery_fair.app import Fair

#: Where an app keeps its Fair. On the app itself, so that two apps in a process can't mix theirs.
ATTRIBUTE: Final = "_celery_fair"


def installed(app: Any) -> Fair | None:
    """Return the Fair of an app."""
    found: Fair | None = getattr(app, ATTRIBUTE, None)
    return found


def apply_here(
    task: Any,
    apply: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    *rest: Any,
    **options: Any,
) -> Any:
    """Run a task here and now (``task.apply``) with the header that a worker would have received.

    Eager calls never come by ``app.send_task``, so this is their seam.
    """
    fair = installed(task.app)
    if fair is None:
        return apply(args, kwargs, *rest, **options)
    fair.prepare_eager(task, args, kwargs, options)
    # Inside, the task is the nearest source of a kind, not the block of code around the call.
    with saying(None):
        return apply(args, kwargs, *rest, **options)


#: What ``Task.retry`` takes by position.
RETRY: Final = ("args", "kwargs", "exc", "throw", "eta", "countdown", "max_retries")

#: The module of Celery's own ``Task.retry``, and of what wraps it under its name.
OF_CELERY: Final = "celery.app.task"


def retry_here(task: Any, retry: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Retry (``task.retry``) when a task of its kind may run again."""
    timed = _timed(task, retry, args, options)
    return retry(*args, **options) if timed is None else retry(**timed)


def _timed(
    task: Any, retry: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the arguments of a retry that is decided here, or None to leave it as it is called.

    What a team's own ``retry`` means by its arguments only that team knows.
    """
    fair = installed(task.app)
    if fair is None or not fair.retrying.decides or retry.__module__ != OF_CELERY:
        return None
    named = dict(zip(RETRY, args, strict=False))
    if len(args) > len(RETRY) or named.keys() & options.keys():
        return None  # Celery says what is wrong with it
    return fair.retrying.timed(task, {**named, **options})


class FairTask:
    """The part of a task class that eager calls and retries need."""

    app: Any

    def apply(self, *args: Any, **options: Any) -> Any:
        """Run here and now."""
        parent: Any = super()
        return apply_here(self, parent.apply, *args, **options)

    def retry(self, *args: Any, **options: Any) -> Any:
        """Run again later."""
        parent: Any = super()
        return retry_here(self, parent.retry, *args, **options)


#: Methods of Celery's Django tasks (5.4 to 5.7); they hand ``self.delay`` and ``self.apply_async``
#: to ``transaction.on_commit``.
ON_COMMIT: Final = ("delay_on_commit", "apply_async_on_commit")


def call_on_commit(task: Any, method: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Call one of the `ON_COMMIT` methods, so that its publish is as if it were made now.

    By the commit the block or the view around the call has ended: with ``ATOMIC_REQUESTS`` Django
    commits after the view. So what was said around the call is kept until then, by a twin of the
    task: the task itself is everyone's, and a team's own method may need a real one.
    """
    around = ambient.get()

    def kept(call: Callable[..., Any]) -> Callable[..., Any]:
        def publish(*args: Any, **kwargs: Any) -> Any:
            with saying(around):
                return call(*args, **kwargs)

        return publish

    twin = object.__new__(type(task))
    vars(twin).update(vars(task), delay=kept(task.delay), apply_async=kept(task.apply_async))
    method(twin, *args, **kwargs)


class FairTaskOnCommit(FairTask):
    """`FairTask` for Celery's Django tasks."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Publish when the transaction commits."""
        parent: Any = super()
        call_on_commit(self, parent.delay_on_commit.__func__, *args, **kwargs)

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Publish when the transaction commits."""
        parent: Any = super()
        call_on_commit(self, parent.apply_async_on_commit.__func__, *args, **kwargs)


def with_fair_task(base: Any) -> Any:
    """Return a task class with ours in front."""
    if issubclass(base, FairTask):
        return base
    ours = FairTaskOnCommit if hasattr(base, ON_COMMIT[0]) else FairTask
    return type(
        base.__name__,
        (ours, base),
        {"__module__": base.__module__, "__doc__": base.__doc__, "abstract": True},
    )


def _apply_async(self: Any, *args: Any, **options: Any) -> Any:
    """``Task.apply_async`` of a ``fair_task``: no option of ours is lost without a word."""
    if installed(self.app) is None:
        for option in own_options(options):
            raise NotInstalled(f"{self.name} was called with {option}= in {self.app!r}")
    own: Any = next(c for c in type(self).__mro__ if vars(c).get("apply_async") is _apply_async)
    return super(own, self).apply_async(*args, **options)


@overload
def fair_task(function: Callable[..., Any], /) -> Any: ...


@overload
def fair_task(
    *,
    kind: Kind | None = None,
    timeout_seconds: float | None = None,
    deduplicate_seconds: float | None = None,
    uses: str | Sequence[str] | None = None,
    tokens: int | Callable[..., int] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Any]: ...


def fair_task(
    *args: Any,
    kind: Kind | None = None,
    timeout_seconds: float | None = None,
    deduplicate_seconds: float | None = None,
    uses: str | Sequence[str] | None = None,
    tokens: int | Callable[..., int] | None = None,
    **options: Any,
) -> Any:
    """Make a task of a kind; takes all that ``celery.shared_task`` takes, or stands bare.

    Without ``kind`` the task takes the kind of whoever publishes it. ``timeout_seconds`` is how
    long it may wait for a slot: after that it isn't run, and fails with `QueueTimeout`.
    ``deduplicate_seconds`` is how long after its end its result answers the same request; with 0
    each runs, whatever the setting of that name says. ``uses`` names what all workers share and it
    needs a place of, ``tokens`` is how many it is thought to use, or a function of its arguments
    (`docs/resources.md`). Raises `UnknownKind` and `BadOption`.
    """
    if args and not callable(args[0]):
        raise UnknownKind(args[0], KINDS, "fair_task takes its kind by name, kind=…")
    if kind is not None:
        options["fair_kind"] = known_kind(kind, "fair_task(kind=…)")
    if timeout_seconds is not None:
        where = "fair_task(timeout_seconds=…)"
        options["fair_timeout_seconds"] = known_timeout(timeout_seconds, where)
    if deduplicate_seconds is not None:
        options["fair_deduplicate_seconds"] = known_keeping(deduplicate_seconds)
    if uses is not None:
        options["fair_uses"] = known_uses(uses, "fair_task(uses=…)")
    if callable(tokens):
        options["fair_tokens"] = staticmethod(tokens)  # else it would be a method of the task
    elif tokens is not None:
        options["fair_tokens"] = known_tokens(tokens, "fair_task(tokens=…)")
    base = options.get("base")
    if base is not None:
        options["base"] = with_fair_task(base)
    # Options become attributes of the task's class: the public way into it that leaves the base
    # class to the app.
    return shared_task(*args, apply_async=_apply_async, **options)
