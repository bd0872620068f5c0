"""Shared resources in the app's state Redis: each question is one script, and one round trip."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kombu.utils.uuid import uuid

from celery_fair.errors import StateAway
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.resources import scripts
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import (
    MOST_HOLDERS,
    Ended,
    Holder,
    ResourceView,
    Short,
    Turn,
    Wait,
    Want,
    longest_first,
)
from celery_fair.state import Call, Script, State, text_of

if TYPE_CHECKING:
    from celery_fair.app import Fair

PATIENCE_SECONDS: Final = 1.0
"""How long a worker's thread waits for one answer; its tasks hold on for ten times as long."""

LONGEST_WAIT_SECONDS: Final = 5.0
"""A call of `RedisStore.woken` ends after so long, whatever it was asked."""

WITHOUT: Final = "places and budgets are shared out by each worker for itself"


class RedisStore:
    """A `ResourceStore` for all processes that reach one Redis.

    ``turn`` is for one thread, as a later call makes an earlier one void; the others are for any.
    ``now`` is for tests, in seconds: the store's clock is Redis's own.
    """

    def __init__(
        self,
        state: State,
        waiting: State,
        rules: Mapping[str, Resource],
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self.go_by(rules)
        self._now = now
        self._token = uuid()
        self._number = 0
        self._come = "0/0"
        """How far the store had come, as it said itself: one that is behind it has lost that."""

    @classmethod
    def of(cls, fair: Fair, rules: Mapping[str, Resource]) -> RedisStore:
        """The store of an app; raises `SettingsError` where there is no Redis for it."""
        patience = LONGEST_WAIT_SECONDS + PATIENCE_SECONDS
        return cls(
            State.of(fair, asks="resources", without=WITHOUT, patience_seconds=PATIENCE_SECONDS),
            State.of(fair, asks="resources", without=WITHOUT, patience_seconds=patience),
            rules,
        )

    def go_by(self, rules: Mapping[str, Resource]) -> None:
        """Have the next call go by these."""
        self._rules = rules
        self._sent = json.dumps({name: _sent(rule) for name, rule in rules.items()})

    def disconnect(self) -> None:
        """Let go of the connections; the next call makes others."""
        self._state.close()
        self._waiting.close()

    def turn(
        self,
        worker: str,
        wants: Sequence[Want],
        running: Collection[Want],
        ended: Sequence[Ended],
    ) -> Turn:
        said = {
            "wants": [_said(want) for want in wants],
            "running": [_said(want) for want in running],
            "ended": [[lease, began] for lease, began in ended],
        }
        unknown = {name for want in wants for name in want.uses} - self._rules.keys()
        self._number += 1
        self._state.follow()
        granted, lost, waits = self._ask(
            scripts.TURN, worker, self._token, self._number, json.dumps(said), unknown=unknown
        )
        return Turn(_texts(granted), dict(map(_wait, waits)), _texts(lost))

    def woken(self, worker: str, seconds: float) -> bool:
        bounded = min(seconds, LONGEST_WAIT_SECONDS)
        self._waiting.follow()
        return self._waiting.pop(f"_celery_fair.resources.wake.{worker}", bounded)

    def leave(self, worker: str) -> None:
        self._ask(scripts.LEAVE, worker)

    def charge(self, resource: str, tokens: int = 0, requests: int = 0) -> None:
        self._ask(scripts.CHARGE, resource, requests, tokens, insist=False)

    def slow_down(self, resource: str, retry_after_seconds: float | None) -> None:
        said = "" if retry_after_seconds is None else repr(float(retry_after_seconds))
        self._ask(scripts.SLOW_DOWN, resource, said, insist=False)

    def views(self) -> Sequence[ResourceView]:
        names = sorted(self._rules)
        (rows,) = self._ask(scripts.VIEWS, *names)
        return [_view(self._rules[name], row) for name, row in zip(names, rows, strict=True)]

    def holders(self) -> Sequence[Holder]:
        at, rows = self._ask(scripts.HOLDERS, MOST_HOLDERS)
        return longest_first(_holder(float(at), *map(text_of, row)) for row in rows)

    def _ask(
        self,
        script: Script,
        *args: str | int,
        unknown: Collection[str] = (),
        insist: bool = True,
    ) -> list[Any]:
        """Run a script; who has no pace of its own, as tasks and requests, doesn't insist."""
        now = "" if self._now is None else str(round(self._now() * 1000))
        rules = self._sent
        if unknown:
            more = {name: _sent(Resource(name)) for name in unknown}
            rules = json.dumps({**json.loads(rules), **more})
        call = Call(script, [], (now, rules, self._come, *args))
        found = self._state.call(call, insist=insist)
        if found is None:  # a later turn was answered before this one
            raise StateAway
        self._come = text_of(found[0])
        return list(found[1:])


def _sent(rule: Resource) -> dict[str, float]:
    """Return a rule as the scripts read it; what has no bound is left out."""
    requests, tokens = rule.budgets
    most_requests, most_tokens = rule.most
    values = {
        "places": rule.max_running,
        "reserved": rule.reserved_places,
        "reserve": rule.interactive_reserve,
        "share": rule.batch_share,
        "requests": requests,
        "tokens": tokens,
        "most_requests": most_requests,
        "most_tokens": most_tokens,
    }
    return {name: value for name, value in values.items() if value is not None}


def _said(want: Want) -> list[Any]:
    return [want.lease, f"{want.kind}:{','.join(want.uses)}", want.tokens]


def _wait(row: Sequence[Any]) -> tuple[str, Wait]:
    lease, resource, short, seconds, before = row
    wait = Wait(text_of(resource), Short(text_of(short)), float(seconds), int(before))
    return text_of(lease), wait


def _holder(at: float, lease: str, kept: str) -> Holder:
    since, _, line, worker = kept.split(" ", 3)
    kind, _, uses = line.partition(":")
    seconds = round((at - float(since)) / 1000.0, 3)
    return Holder(
        lease,
        worker,
        BATCH if kind == BATCH else INTERACTIVE,
        tuple(uses.split(",")),
        seconds,
    )


def _texts(values: Sequence[Any]) -> list[str]:
    return [text_of(value) for value in values]


def _view(rule: Resource, row: Sequence[Any]) -> ResourceView:
    interactive, batch, i_waiting, b_waiting, requests, tokens, rate, slowed = row
    return ResourceView(
        rule.name,
        rule.max_running,
        {INTERACTIVE: int(interactive), BATCH: int(batch)},
        {INTERACTIVE: int(i_waiting), BATCH: int(b_waiting)},
        None if rule.requests_per_minute is None else float(requests),
        None if rule.tokens_per_minute is None else float(tokens),
        float(rate),
        float(slowed),
    )
