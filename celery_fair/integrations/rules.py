"""Which kind, tenant and id a request has: what an integration was told to believe, and in turn.

Kind: a trusted header, a callable, the view's decorator, the path. Each is nearer to this one
request than what follows it. Tenant and request id: a callable, or else a trusted header. The
callable is the application's own knowledge of who asks, so no header stands beside it.
"""

from __future__ import annotations

import fnmatch
import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from celery_fair import Fair, Kind, SettingsError
from celery_fair.integrations import words
from celery_fair.integrations.full import DEFAULT_STATUS, STATUSES

logger = logging.getLogger(__name__)

DEFAULT_HEADER: Final = "X-Fair-Kind"
DEFAULT_TENANT_HEADER: Final = "X-Fair-Tenant"
DEFAULT_REQUEST_ID_HEADER: Final = "X-Request-ID"

Said = Literal["kind", "tenant", "request_id"]
SAID: Final[tuple[Said, ...]] = ("kind", "tenant", "request_id")

#: Reads one request header; several values of one name come joined with commas.
Get = Callable[[str], "str | None"]
Ask = Callable[[Any], Any]
_Word = TypeVar("_Word")

#: Header names are tokens; without the underscore, which a WSGI server can't tell from the hyphen.
_NAME: Final = re.compile(r"[A-Za-z0-9-]+")

#: True where something stronger than a view's decorator said the kind.
decided: Final[ContextVar[bool]] = ContextVar("celery_fair_decided", default=False)


class RequestRules:
    """What to believe of requests; checked whole, raises `SettingsError` for what can't be used.

    ``trust_header`` says which headers are believed: True all three, or a list of "kind", "tenant"
    and "request_id". ``kind``, ``tenant`` and ``request_id`` are callables that get the request
    (for ASGI its scope) and answer, or answer None. ``paths`` gives kinds to paths; ``*``, ``?``
    and ``[]`` match as in the setting ``kinds``: an exact path, else the first pattern that does.
    ``full_status`` is the status of the answer where `QueueFull` leaves a view: 429 or 503.

    What a request says and can't be used is ignored, counted in ``ignored`` and logged at the 1st,
    10th, 100th time and so on, without the value. It never becomes an error to the client.
    """

    def __init__(
        self,
        *,
        trust_header: bool | Collection[str] = False,
        header: str = DEFAULT_HEADER,
        tenant_header: str = DEFAULT_TENANT_HEADER,
        request_id_header: str = DEFAULT_REQUEST_ID_HEADER,
        kind: Ask | None = None,
        tenant: Ask | None = None,
        request_id: Ask | None = None,
        paths: Mapping[str, Kind] | None = None,
        full_status: int = DEFAULT_STATUS,
    ) -> None:
        names = {"kind": header, "tenant": tenant_header, "request_id": request_id_header}
        asks = {"kind": kind, "tenant": tenant, "request_id": request_id}
        paths = {} if paths is None else paths
        problems = [*_wrong_trust(trust_header), *_wrong_names(names)]
        problems += [*_wrong_asks(asks), *_wrong_paths(paths), *wrong_status(full_status)]
        if problems:
            raise SettingsError(problems)
        trusted = (SAID if trust_header else ()) if isinstance(trust_header, bool) else trust_header
        self._headers = {said: name for said, name in names.items() if said in trusted}
        self._asks = {said: ask for said, ask in asks.items() if ask is not None}
        self._paths = _Paths(paths)
        self.full_status = full_status
        self.ignored: Counter[str] = Counter()
        self._lock = Lock()

    def __bool__(self) -> bool:
        """Return whether there is anything to do for a request at all."""
        return bool(self._headers or self._asks or self._paths)

    def serving(self, request: Any, path: str, get: Get) -> AbstractContextManager[None]:
        """Return the scope in which a request is to be served; ``path`` is without its mount."""
        kind: Kind | None = self._told("kind", get, words.told_kind)
        if kind is None:
            kind = self._answered("kind", request, words.answered_kind)
        return _serving(
            kind or self._paths.kind_of(path),
            kind is not None,
            self._identity("tenant", request, get),
            self._identity("request_id", request, get),
        )

    def _identity(self, said: Said, request: Any, get: Get) -> str | None:
        if said in self._asks:
            return self._answered(said, request, words.answered_identity)
        return self._told(said, get, words.told_identity)

    def _told(
        self, said: Said, get: Get, read: Callable[[str | None], _Word | None]
    ) -> _Word | None:
        name = self._headers.get(said)
        if name is None:
            return None
        try:
            return read(get(name))
        except words.Unusable as error:
            self._ignore(f"the header {name}", f"expected {error}")
        return None

    def _answered(
        self, said: Said, request: Any, read: Callable[[Any], _Word | None]
    ) -> _Word | None:
        ask = self._asks.get(said)
        if ask is None:
            return None
        try:
            return read(ask(request))
        except words.Unusable as error:
            self._ignore(f"the answer of {said}=", f"expected {error}")
        except Exception as error:  # the application's own, and no reason to refuse a request
            logger.debug("%s= of a web integration raised", said, exc_info=True)
            self._ignore(f"the answer of {said}=", f"it raised {type(error).__name__}")
        return None

    def _ignore(self, what: str, why: str) -> None:
        with self._lock:
            self.ignored[what] += 1
            times = self.ignored[what]
        if str(times).rstrip("0") == "1":
            logger.warning("%s was ignored (%d so far in this process): %s", what, times, why)


@dataclass(frozen=True, slots=True)
class _Glob:
    matches: Callable[[str], object]
    kind: Kind


class _Paths:
    """Kinds by paths. No answer is kept: paths are the clients', and there is no end to them."""

    def __init__(self, paths: Mapping[str, Kind]) -> None:
        self._exact = dict(paths)
        self._globs = [_Glob(re.compile(fnmatch.translate(p)).match, k) for p, k in paths.items()]

    def __bool__(self) -> bool:
        return bool(self._exact)

    def kind_of(self, path: str) -> Kind | None:
        """Return the kind of a path, or None."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        return next((glob.kind for glob in self._globs if glob.matches(path)), None)


@contextmanager
def _serving(
    kind: Kind | None, strong: bool, tenant: str | None, request_id: str | None
) -> Iterator[None]:
    token = decided.set(strong)
    try:
        with Fair.inherit(kind, tenant=tenant, request_id=request_id):
            yield
    finally:
        decided.reset(token)


def _wrong_trust(trust: object) -> Iterator[str]:
    if isinstance(trust, bool):
        return
    known = isinstance(trust, (list, tuple, set, frozenset)) and all(word in SAID for word in trust)
    if not known:
        expected = f"True, False or a list of {', '.join(map(repr, SAID))}"
        yield f"trust_header: expected {expected}, got {trust!r}"


def _wrong_names(names: Mapping[str, object]) -> Iterator[str]:
    seen: set[str] = set()
    for said, name in names.items():
        option = "header" if said == "kind" else f"{said}_header"
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            yield f"{option}: expected a header's name of letters, digits and hyphens, got {name!r}"
        elif name.lower() in seen:
            yield f"{option}: expected a header of its own, got {name!r}, which is another's"
        else:
            seen.add(name.lower())


def _wrong_asks(asks: Mapping[str, object]) -> Iterator[str]:
    for said, ask in asks.items():
        waits = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(
            getattr(ask, "__call__", None)  # noqa: B004 - an object's own may be async
        )
        if ask is not None and (waits or not callable(ask)):
            yield f"{said}: expected a callable that isn't async, got {ask!r}"


def _wrong_paths(paths: object) -> Iterator[str]:
    if not isinstance(paths, Mapping):
        yield f"paths: expected a dict from paths to kinds, got {paths!r}"
        return
    for path, kind in paths.items():
        if not isinstance(path, str) or not path.startswith(("/", "*")):
            yield f"paths: expected paths from / on, got {path!r}"
        try:
            words.answered_kind(kind) or words.answered_kind("")
        except words.Unusable as error:
            yield f"paths: expected {error} for {path!r}, got {kind!r}"


def wrong_status(status: object) -> Iterator[str]:
    """Of the answer where too much waits."""
    if isinstance(status, bool) or status not in STATUSES:
        expected = " or ".join(map(str, STATUSES))
        yield f"full_status: expected {expected}, got {status!r}"
