"""What code says about kinds: declarations, ``fair_task``, and the kind around a block of code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from celery import shared_task
from pydantic import SecretStr

from celery_fair.errors import BadOption, NotInstalled, UnknownKind
from celery_fair.headers import MAX_TEXT
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.resources.declaring import known_tokens, known_uses
from celery_fair.settings import keyed_hash

if TYPE_CHECKING:
    from celery_fair.app import Fair

T = TypeVar("T")

#: Where an app keeps its Fair. On the app itself, so that two apps in a process can't mix theirs.
ATTRIBUTE: Final = "_celery_fair"

#: Options of a call that are ours; Celery would pass them on to the broker without a word.
OPTIONS: Final = ("kind", "request_id", "tenant", "timeout_seconds", "tokens")


#: Thirty years, in seconds.
FOR_EVER: Final = 1e9

#: Celery's own tasks; they serve others, so they never choose batch by themselves.
BUILT_IN: Final = "celery."

#: Names come from elsewhere, too; what is kept about them must not fill the memory.
MAX_NAMES: Final = 10_000


def known_kind(kind: object, where: str = "kind=") -> Kind:
    """Return the kind, or raise `UnknownKind` naming ``where`` it was said."""
    if kind == INTERACTIVE:
        return INTERACTIVE
    if kind == BATCH:
        return BATCH
    raise UnknownKind(kind, KINDS, where)


def installed(app: Any) -> Fair | None:
    """Return the Fair of an app."""
    found: Fair | None = getattr(app, ATTRIBUTE, None)
    return found


def declared_kind(task: Any) -> Kind | None:
    """Return what a task says of itself, by ``@fair_task(kind=)`` or an attribute ``fair_kind``.

    ``@app.task(kind=)`` says it too.

    Raises `UnknownKind` for a word that is no kind: ignoring it would send bulk to people.
    """
    kind = getattr(task, "fair_kind", None)
    kind = own_option(task, "kind") if kind is None else kind
    return None if kind is None else known_kind(kind, f"kind of {task.name}")


def own_option(task: Any, name: str) -> Any:
    """Return what a decorator of Celery's was given as ``name=``, as in ``@app.task(kind=…)``.

    Such options become attributes of the task's own class. Only there are they surely meant for us:
    a class-based task may have a ``kind`` of its own.
    """
    own = vars(type(task))
    return own.get(name) if "__wrapped__" in own else None


def known_timeout(seconds: Any, where: str = "timeout_seconds=") -> float:
    """Return how long a task may wait, in seconds; raises `BadOption` naming ``where`` it was said.

    Infinite is for ever; it travels as a number that every JSON parser reads.
    """
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
        return min(float(seconds), FOR_EVER)
    raise BadOption(where, "seconds over 0, or math.inf for no timeout", seconds)


def known_keeping(seconds: Any, where: str = "fair_task(deduplicate_seconds=…)") -> float:
    """Return how long a result answers the same request, in seconds, 0 for never.

    Raises `BadOption`.
    """
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
        return min(float(seconds), FOR_EVER)
    raise BadOption(where, "seconds over 0, or 0 to run each request", seconds)


class Globs(Generic[T]):
    """Values by names and patterns of names: an exact name, else the first pattern that matches."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = values
        self._known: dict[str, T | None] = {}

    def find(self, name: str) -> T | None:
        """Return what is said of a task's name, or None; the answer is kept, as publishing asks."""
        if name not in self._known:
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            self._known[name] = self._match(name)
        return self._known[name]

    def _match(self, name: str) -> T | None:
        if name in self._values:
            return self._values[name]
        for glob, value in self._values.items():
            # "*" means the team's tasks: it must not send chord_unlock behind their bulk.
            ours = not name.startswith(BUILT_IN) or glob.startswith(BUILT_IN)
            if ours and fnmatchcase(name, glob):
                return value
        return None


@dataclass(frozen=True, slots=True)
class Ambient:
    """What the code around a publish says: a kind, and whom it is done for."""

    kind: Kind | None
    #: True for ``with fair.kind(...)``: it beats declarations, and its children's too.
    covers_children: bool
    tenant: str | None = None
    request_id: str | None = None
    #: The tenant is already as it is to travel.
    is_hidden: bool = False
    #: What is published goes before all that waits.
    to_front: bool = False
    #: It belongs to work that was let in, whatever waits.
    let_in: bool = False


NOTHING: Final = Ambient(None, covers_children=False)

ambient: Final[ContextVar[Ambient | None]] = ContextVar("celery_fair_ambient", default=None)


@contextmanager
def _around(value: Ambient | None) -> Iterator[None]:
    token = ambient.set(value)
    try:
        yield
    finally:
        ambient.reset(token)


@contextmanager
def everything_is(kind: Kind) -> Iterator[None]:
    """Publish everything inside as ``kind``, whatever the tasks declare, and their children too."""
    around = ambient.get() or NOTHING
    with _around(replace(around, kind=known_kind(kind), covers_children=True)):
        yield


@contextmanager
def inherit(
    kind: Kind | None = None, *, tenant: object = None, request_id: object = None
) -> Iterator[None]:
    """Publish what is inside as a running task of that kind, tenant and request would.

    This is the scope of a web request. A task's own declaration beats the kind, and what a call
    says beats all three; what isn't said here stays as the block around this one has it.

    Like every context variable it holds in coroutines and in ``asyncio.to_thread``, but not in
    threads started by hand, unless they run in ``contextvars.copy_context()``.
    """
    around = ambient.get() or NOTHING
    value = Ambient(
        around.kind if kind is None else known_kind(kind),
        covers_children=around.covers_children if kind is None else False,
        tenant=bounded(tenant) or around.tenant,
        request_id=bounded(request_id) or around.request_id,
    )
    with _around(value):
        yield


def as_published(
    *,
    tenant: str | None,
    request_id: str | None,
    to_front: bool = False,
    let_in: bool = False,
) -> AbstractContextManager[None]:
    """Publish what is inside for someone whose work was published before, and nobody else."""
    return _around(
        Ambient(
            None,
            covers_children=False,
            tenant=tenant,
            request_id=request_id,
            is_hidden=True,
            to_front=to_front,
            let_in=let_in,
        )
    )


def inherit_kind(kind: Kind) -> AbstractContextManager[None]:
    """Publish what is inside as a running task of ``kind`` would: a task's own declaration wins.

    `Fair.inherit` is the same, and takes a tenant and a request id too.
    """
    return inherit(known_kind(kind))


def bounded(text: object) -> str | None:
    """Return an identifier as text of a length that every worker can carry."""
    return None if text is None else str(text)[:MAX_TEXT]


def hidden(text: str | None, key: SecretStr | None) -> str | None:
    """Return an identifier as it is to travel: with a key half of its HMAC-SHA256, in hex."""
    if text is None or key is None:
        return text
    return keyed_hash(text, key)


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
    with _around(None):
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
            with _around(around):
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


def own_options(options: Mapping[str, Any]) -> list[str]:
    """Return which of our options are given; a stamp may bear such a name and stays Celery's."""
    stamps = options.get("stamped_headers") or ()
    return [name for name in OPTIONS if name in options and name not in stamps]


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
