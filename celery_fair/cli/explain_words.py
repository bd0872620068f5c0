"""Each reason as a sentence: with a worker's figures, or for several workers at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from celery_fair.cli.words import ago, count, duration, gate_reason, plural
from celery_fair.policy.load import Mode
from celery_fair.policy.waiting import Reason

NAMED: Final = 3
"""Workers that are named; of a thousand the rest is counted."""

SHORT: Final[Mapping[Reason, str]] = {
    Reason.GATE_PROTECTED: "gate protected",
    Reason.ENGINE: "the engine behind the tasks queues",
    Reason.CEILING: "the kind at its ceiling",
    Reason.SLOTS_TAKEN: "no free slot",
    Reason.INTERACTIVE_FIRST: "interactive tasks first",
    Reason.BATCH_OWED: "batch first, which was owed its share",
    Reason.RESERVE: "free slots kept in reserve",
    Reason.FLEET_RESERVE: "free slots kept for the fleet's reserve",
    Reason.JOINING: "worker joining its fleet",
    Reason.ASKING: "waiting for the broker's word that nothing interactive comes first",
    Reason.ARRIVING: "on its way",
    Reason.IN_LINE: "others of its kind first",
    Reason.TENANT_TURN: "other tenants' turn first",
    Reason.TENANT_CAP: "its tenant at its cap",
    Reason.FRONT_FIRST: "the front of its queue first",
    Reason.NO_CREDIT: "worker holding all it may",
    Reason.RATE_LIMIT: "rate limit",
    Reason.RESOURCE: "no place or budget at what it uses",
    Reason.HOOK: "before_batch has yet to let it run",
    Reason.ETA: "its time has not come",
    Reason.TIMING_OUT: "being failed, as it has waited too long",
    Reason.PAUSED: "paused",
    Reason.DRAINING: "worker being emptied",
    Reason.STOPPING: "worker ending",
    Reason.OBSERVING: "only observed: Celery's own order",
    Reason.PLAIN_WORKER: "a worker without celery-fair, which tells no reasons",
    Reason.NO_CONSUMER: "no worker consumes its queue",
    Reason.NO_ANSWER: "a worker that doesn't answer",
    Reason.DUPLICATE: "a copy of another message",
}


def safe(text: object, length: int = 255) -> str:
    """Text that whoever publishes may have chosen, fit for a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in
                   str(text)[:length])  # fmt: skip


def at_workers(reason: Reason, nodes: Sequence[str]) -> str:
    """The same for several workers, some of them named."""
    return f"{SHORT[reason]} ({names(nodes)})"


def names(nodes: Sequence[str]) -> str:
    """``a, b, c and 997 others``."""
    shown = ", ".join(safe(node) for node in nodes[:NAMED])
    others = len(nodes) - NAMED
    return shown if others <= 0 else f"{shown} and {plural(others, 'other')}"


def at_worker(reason: Reason, kind: str, report: Mapping[str, Any], now: float) -> str:
    """With the figures of the one worker that matters."""
    if reason is Reason.PAUSED:
        return _paused(kind, report, now)
    part = report["kinds"][kind]
    if reason is Reason.GATE_PROTECTED:
        gate = report["gate"]
        return (
            f"{SHORT[reason]} for {duration(now - gate['since'])} ({gate_reason(gate)}); batch has "
            f"{part['running']} of the {part['slots']} it may have meanwhile"
        )
    if reason is Reason.ENGINE:
        return _engine(part, report, now)
    since = "" if part["since"] is None else f" for {duration(now - part['since'])}"
    gate, also = report["gate"], ""
    if reason is Reason.INTERACTIVE_FIRST and gate["mode"] == Mode.PROTECTED.value:
        also = f"; the gate has protected them for {duration(now - gate['since'])}"
    return f"{SHORT[reason]}{since}{_figures(reason, kind, report)}{also}"


def _engine(part: Mapping[str, Any], report: Mapping[str, Any], now: float) -> str:
    engine = report.get("engine") or {}
    since = "" if part["since"] is None else f" for {duration(now - part['since'])}"
    detail = f" ({safe(engine['detail'])})" if engine.get("detail") else ""
    return f"{SHORT[Reason.ENGINE]}{since}{detail}; batch has what it is owed of a lower share"


def _figures(reason: Reason, kind: str, report: Mapping[str, Any]) -> str:
    if reason is Reason.CEILING:
        part, total = report["kinds"][kind], report["slots"]["total"]
        return f": it has {part['running']} of {plural(total, 'slot')}"
    if reason in (Reason.SLOTS_TAKEN, Reason.BATCH_OWED):
        return f": {taken(report)}"
    if reason is Reason.INTERACTIVE_FIRST:
        return f": {count(report['kinds']['interactive']['backlog'])} wait; {taken(report)}"
    if reason in (Reason.RESERVE, Reason.FLEET_RESERVE):
        return f": {taken(report)}, {report['slots']['reserve']} in reserve here"
    return ""


def taken(report: Mapping[str, Any]) -> str:
    """``8 of 8 running: 6 interactive, 2 batch``."""
    kinds, total = report["kinds"], report["slots"]["total"]
    running = {kind: part["running"] for kind, part in kinds.items()}
    by_kind = ", ".join(f"{number} {kind}" for kind, number in running.items())
    return f"{sum(running.values())} of {total} running ({by_kind})"


def of_task(reason: Reason, task: Mapping[str, Any], now: float) -> str:
    """What the task itself waits for, whatever its kind does."""
    if reason is Reason.RATE_LIMIT:
        return f"its task's rate limit of {safe(task.get('rate_limit'))}, which Celery keeps"
    if reason is Reason.RESOURCE:
        return _of_resource(task.get("wait"), task.get("uses") or [])
    if reason is Reason.HOOK:
        return _of_hook(task.get("said"), task.get("again_at"), now)
    eta = task.get("eta")
    if reason is not Reason.ETA or eta is None:
        return SHORT[reason]
    return f"its time comes at {clock(eta, now)}, in {duration(eta - now)}"


_SHORT_OF: Final[Mapping[str, str]] = {
    "running": "all places are taken",
    "reserved": "the places left are kept for interactive tasks",
    "in_line": "others asked before",
    "requests": "the requests of this minute are used up",
    "tokens": "the tokens of this minute are used up",
    "slowed": "it has refused requests, and gets less",
    "starting": "its Redis has just begun: running tasks have yet to tell of themselves",
}
"""What a resource lacks, by the words of its store."""


def _of_resource(wait: Mapping[str, Any] | None, uses: Sequence[str]) -> str:
    if not wait:
        return f"it uses {', '.join(map(safe, uses))}, and asks when it could have a slot"
    short = _SHORT_OF.get(wait["short"], safe(wait["short"]))
    before = wait.get("before") or 0
    return f"{safe(wait['resource'])}: {short}{f', {before} before it' if before else ''}"


def _of_hook(said: Mapping[str, Any] | None, again_at: float | None, now: float) -> str:
    if not said:
        return "before_batch is being asked"
    error = f" ({safe(said['error'])})" if said.get("error") else ""
    if again_at is None:
        return f"before_batch is being asked again{error}"
    return f"before_batch has put it off until {clock(again_at, now)}{error}"


def of_turn(reason: Reason, turn: Mapping[str, Any]) -> str:
    """What stands before its tenant there."""
    tenant = turn["tenant"]
    who = "what names no tenant" if tenant is None else safe(tenant)
    others = f"{plural(turn['others'], 'other tenant')} wait{'s' * (turn['others'] == 1)}"
    if reason is Reason.TENANT_CAP:
        return f"{SHORT[reason]}: {who} runs {turn['running']} there, and {others}"
    ahead = duration(turn["ahead_seconds"])
    return f"{SHORT[reason]}: {who} has had {ahead} of slots more, by weight; {others}"


def _paused(kind: str | None, report: Mapping[str, Any], now: float) -> str:
    for one in report["steering"]["paused"]:
        if one["kind"] == kind:
            what = safe(one["queue"] or one["kind"])
            return f"{what} was paused by {safe(one['by'])} {ago(one['at'], now)}"
    return SHORT[Reason.PAUSED]


def clock(at: float, now: float) -> str:
    """The time of day here, with the date unless it is today's."""
    pattern = "%H:%M:%S" if abs(at - now) < 12 * 3600 else "%Y-%m-%d %H:%M:%S"
    return time.strftime(pattern, time.localtime(at))
