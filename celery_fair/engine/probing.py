"""Asks the probe of a worker, beside its loop."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction
from time import monotonic
from typing import Any, Final

from celery_fair.engine.load import EngineLoad, one_line, read_answer
from celery_fair.errors import SettingsError
from celery_fair.settings import FairSettings

logger = logging.getLogger(__name__)

KNOWN_INTERVALS: Final = 5
"""After so many intervals without an answer the load is unknown, as if there were no probe."""

JITTER: Final = (0.8, 1.2)

SHORTEST_KNOWN_SECONDS: Final = 5.0
"""A probe may take its time, however short the interval."""


class Probing:
    """One thread that calls the probe, each ``seconds``; what it says is read without waiting.

    Each worker asks for itself. A probe that raises, hangs or answers nonsense is told of once, and
    so is its next answer. The thread of one that hangs for ever ends with the process.
    """

    def __init__(self, probe: Callable[[], Any], seconds: float) -> None:
        self._probe = probe
        self._seconds = seconds
        self._known_seconds = max(KNOWN_INTERVALS * seconds, SHORTEST_KNOWN_SECONDS)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._last: tuple[EngineLoad, float] | None = None
        self._begun_at = 0.0
        self._failing = ""
        self.asked = self.failures = 0

    @classmethod
    def of(cls, settings: FairSettings) -> Probing | None:
        """That of a worker, if a probe is set; raises `SettingsError` for a name without one."""
        if settings.load_probe is None:
            return None
        return cls(probe_of(settings.load_probe), settings.load_probe_seconds)

    def start(self) -> None:
        """Begin; once is enough."""
        if self._thread is None:
            self._begun_at = monotonic()
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-load-probe", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End, without waiting for an answer that is under way."""
        self._ended.set()

    def load(self, now: float) -> EngineLoad | None:
        """The last answer; ``None`` if there is none, or it is too old."""
        last = self._last
        if last is not None and now - last[1] <= self._known_seconds:
            return last[0]
        if not self._failing and now - self._begun_at > self._known_seconds:
            self._say(f"no answer for {self._known_seconds:g} s")
        return None

    def age_seconds(self, now: float) -> float | None:
        """Since the last answer, of any age."""
        return None if self._last is None else now - self._last[1]

    @property
    def failing(self) -> str:
        """Why there is no newer answer; empty while there is."""
        return self._failing

    def look(self) -> None:
        """Ask once; whatever a probe raises, it is asked again: gevent's timeouts are no errors."""
        self.asked += 1
        try:
            answer = read_answer(self._probe())
        except BaseException as error:
            self.failures += 1
            self._say(_told(error))
            return
        self._last = answer, monotonic()
        if self._failing:
            self._failing = ""
            logger.info("celery-fair: the load probe answers again")

    def _run(self) -> None:
        while True:
            self.look()
            if self._ended.wait(self._seconds * random.uniform(*JITTER)):
                return

    def _say(self, why: str) -> None:
        first, self._failing = not self._failing, why
        if first:
            logger.warning(
                "celery-fair: the load probe fails (%s): until it answers, batch goes on as "
                "without one, from %g s after its last answer on",
                self._failing,
                self._known_seconds,
            )


def probe_of(setting: str | Callable[[], Any]) -> Callable[[], Any]:
    """Return the probe that is set; raises `SettingsError` for what can be none."""
    found: Any = _found(setting) if isinstance(setting, str) else setting
    if isinstance(found, type):
        raise _no_probe(setting, f"the class {found.__name__}, and no object of it")
    if iscoroutinefunction(found) or iscoroutinefunction(getattr(found, "__call__", None)):  # noqa: B004
        raise _no_probe(setting, "a coroutine function, and nobody awaits it")
    if not callable(found):
        raise _no_probe(setting, f"a {type(found).__name__}")
    checked: Callable[[], Any] = found
    return checked


def _found(name: str) -> Any:
    module, _, path = name.rpartition(":" if ":" in name else ".")
    try:
        found = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # the module's own, too
        raise _no_probe(name, _told(error)) from error
    return found


def _no_probe(setting: Any, got: str) -> SettingsError:
    return SettingsError(
        [
            f"load_probe={setting!r}: expected a callable or its dotted name, got {got} "
            f"(as in 'shop.engine.probe', or 'shop.engine:probe')"
        ]
    )


def _told(error: BaseException) -> str:
    try:
        return one_line(f"{type(error).__name__}: {error}")
    except Exception:  # one that can't say what it is
        return type(error).__name__
