"""What all workers of an app share; made with its `Fair`, and asks nothing before it has to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from celery_fair.headers import FairHeader
from celery_fair.policy.kinds import Kind
from celery_fair.resources.charging import Charging
from celery_fair.resources.rules import Resource, rules_of
from celery_fair.resources.store import ResourceStore
from celery_fair.resources.uses import Uses, Using

if TYPE_CHECKING:
    from celery_fair.app import Fair


class Resources:
    """The rules of an app, what its tasks use, and the store where its workers meet."""

    def __init__(self, fair: Fair) -> None:
        self.fair = fair
        self._rules: Mapping[str, Resource] | None = None
        self._using: Using | None = None
        self._store: ResourceStore | None = None
        self._let_go: Callable[[], None] = _nothing
        self._go_by: Callable[[Mapping[str, Resource]], None] = _ignore
        self.charging = Charging(fair)

    @property
    def rules(self) -> Mapping[str, Resource]:
        """All resources by name, the limits of the kinds among them (``kind:batch``)."""
        if self._rules is None:
            self._rules = rules_of(self.fair.settings)
        return self._rules

    @property
    def is_set(self) -> bool:
        """Whether there is anything that workers share, beside their slots."""
        return bool(self.rules)

    @property
    def store(self) -> ResourceStore:
        """Where workers meet; raises `SettingsError` where there is no Redis for it."""
        if self._store is None:
            from celery_fair.resources.redis_store import RedisStore

            store = RedisStore.of(self.fair, self.rules)
            self._store, self._let_go, self._go_by = store, store.disconnect, store.go_by
        return self._store

    @property
    def using(self) -> Using:
        """What tasks use."""
        if self._using is None:
            self._using = Using(self.fair)
        return self._using

    def uses_of(self, kind: Kind, name: str, header: FairHeader | None) -> Uses | None:
        """Return what a task needs, as a message of ``kind`` asks for it; None for nothing."""
        return self.using.of(kind, name, header, self.rules) if self.rules else None

    def estimate(self, name: str, task: Any, args: Any, kwargs: Any) -> int:
        """Return the tokens that a call is thought to use."""
        return self.using.estimate(name, task, args, kwargs) if self.rules else 0

    def check(self) -> None:
        """Raise `SettingsError` for what tasks or settings name, and that there is not."""
        self.using.check(self.fair.app.tasks, self.rules)

    def follow(self) -> None:
        """Go by what was set live: ``batch_share``, a part of each rule."""
        if self._rules:
            self._rules = rules_of(self.fair.settings)
            self._go_by(self._rules)

    def close(self) -> None:
        """Let go of the store; the next call reads the settings anew."""
        self._rules = self._using = self._store = None
        self._let_go()
        self._let_go, self._go_by = _nothing, _ignore


def _nothing() -> None:
    """There is nothing to let go of."""


def _ignore(rules: Mapping[str, Resource]) -> None:
    """Nobody goes by them yet."""
