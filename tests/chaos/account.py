"""The account of a chaos run: what became of each message, from the journal alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tests.nodes.journal import Entry

GRACE_SECONDS = 0.5
"""Between something that happens and its line in the journal, on a busy machine."""
NOTICE_SECONDS = 20.0
"""Within which a worker notices that its connection is gone; it says when."""

CONNECTION_TROUBLES = ("cut", "broker", "broker killed")
DEATHS = ("kill", "child")

ENDS = {"finish": "done", "error": "failed", "retry": "retried"}


class Key(NamedTuple):
    """A message: a task's id, and which attempt it is."""

    id: str
    retries: int

    def __str__(self) -> str:
        return f"{self.id}/{self.retries}" if self.retries else self.id


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was done to a worker (``""``: to all), from just before until just after."""

    what: str
    worker: str
    at: float
    until: float
    pid: int | None = None


@dataclass(slots=True)
class Run:
    """One execution of a task's body; it has no end if something ended it first."""

    worker: str
    pid: int
    thread: int
    started_at: float
    ended_at: float = inf
    outcome: str = ""
    acked_at: float = inf


@dataclass(slots=True)
class History:
    """All that the journal says of one message."""

    key: Key
    name: str = ""
    entries: list[Entry] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    published: int = 0
    tries: list[tuple[str, float, float]] = field(default_factory=list)
    """Each publish: by whom, from when, until when."""

    @property
    def ends(self) -> list[str]:
        return [run.outcome for run in self.runs if run.outcome]

    @property
    def is_late(self) -> bool:
        return ".early" not in self.name


@dataclass(frozen=True, slots=True)
class Account:
    """published = done + failed + retried + killed + at the broker, else some are lost."""

    published: int
    outcomes: Mapping[str, int]
    at_broker: int
    lost: tuple[History, ...]
    unread: tuple[History, ...]
    """Popped by Redis' BRPOP for a worker that died before it could read the reply."""
    twice: tuple[History, ...]
    """Run again, since the worker or its connection died meanwhile."""
    at_stop: tuple[History, ...]
    """Run again, since Celery forgot at a warm shutdown that the task was running."""
    unasked: tuple[History, ...]
    """Run again for no such reason."""

    @property
    def extra_runs(self) -> int:
        return _extra(self.twice + self.at_stop + self.unasked)

    @property
    def extra_at_stop(self) -> int:
        return _extra(self.at_stop)

    def line(self) -> str:
        parts = [f"{count} {outcome}" for outcome, count in self.outcomes.items()]
        return (
            f"{self.published} published = {' + '.join(parts)} + {self.at_broker} at the broker"
            f" + {len(self.unread)} popped and never read + {len(self.lost)} lost; "
            f"{self.extra_runs} run again, of these {self.extra_at_stop} after a warm shutdown, "
            f"{_extra(self.unasked)} for no reason"
        )


def settle(
    entries: Iterable[Entry],
    troubles: Iterable[Trouble],
    at_broker: Mapping[Key, int],
    unread: Iterable[Key] = (),
) -> Account:
    """Say what became of each message; ``unread`` as the broker's own books tell."""
    entries = list(entries)
    reach = _reach(entries, list(troubles))
    outcomes = dict.fromkeys(("done", "failed", "retried", "killed as asked"), 0)
    lost, never_read = [], []
    again: dict[str, list[History]] = {"died": [], "stopped": [], "nothing": []}
    published, still, known_unread = 0, 0, set(unread)
    for history in read(entries).values():
        published += history.published
        there = min(at_broker.get(history.key, 0), history.published)
        still += there
        counted = (history.ends + ["killed as asked"] * _killed(history, reach))[
            : history.published - there
        ]
        for outcome in counted:
            outcomes[outcome] += 1
        if len(counted) + there < history.published:
            (never_read if history.key in known_unread else lost).append(history)
        if extra_runs(history):
            again[_reason(history, reach)].append(history)
    return Account(
        published, outcomes, still, tuple(lost), tuple(never_read), *map(tuple, again.values())
    )


def read(entries: Iterable[Entry]) -> dict[Key, History]:
    """The history of each message, in order of the first line about it."""
    histories: dict[Key, History] = {}
    for entry in entries:
        if entry.label:
            key = Key(entry.label, int(entry.more.get("retries", 0)))
            _add(histories.setdefault(key, History(key)), entry)
    return histories


def _add(history: History, entry: Entry) -> None:
    history.entries.append(entry)
    worker = str(entry.more.get("worker", ""))
    if entry.event == "publishing":
        history.name = str(entry.more["name"])
        history.tries.append((worker, entry.at, inf))
    elif entry.event == "published":
        history.published += 1
        history.tries[-1] = (*history.tries[-1][:2], entry.at)
    elif entry.event == "start":
        history.runs.append(Run(worker, entry.pid, entry.thread, entry.at))
    elif entry.event in ENDS:
        for run in reversed(history.runs):
            if (run.pid, run.thread, run.outcome) == (entry.pid, entry.thread, ""):
                run.ended_at, run.outcome = entry.at, ENDS[entry.event]
                break
    elif entry.event in ("acking", "rejecting"):
        _acked(history, worker, entry.at)


def _acked(history: History, worker: str, at: float) -> None:
    """An early ack may come before the first line of the run, so it is the last one's or none's."""
    for run in reversed(history.runs):
        if run.worker == worker and run.acked_at == inf:
            run.acked_at = at
            return


def extra_runs(history: History) -> int:
    return max(0, len(history.runs) - history.published)


def _extra(histories: Iterable[History]) -> int:
    return sum(extra_runs(history) for history in histories)


def _reason(history: History, troubles: list[Trouble]) -> str:
    """Why a message was run again: something died, or was asked to stop, or nothing did."""
    died = [trouble for trouble in troubles if trouble.what != "stop"]
    if _excuses(history, died) >= extra_runs(history):
        return "died"
    return "stopped" if _excuses(history, troubles) >= extra_runs(history) else "nothing"


def _reach(entries: list[Entry], troubles: list[Trouble]) -> list[Trouble]:
    """The troubles, each of a connection lasting until the worker has noticed it."""
    lost = defaultdict(list)
    for entry in entries:
        if entry.event == "lost":
            lost[str(entry.more["worker"])].append(entry.at)
    return [long for trouble in troubles for long in _until_noticed(trouble, lost)]


def _until_noticed(trouble: Trouble, lost: Mapping[str, list[float]]) -> Iterator[Trouble]:
    yield trouble
    if trouble.what not in CONNECTION_TROUBLES:
        return
    for worker in [trouble.worker] if trouble.worker else list(lost):
        noticed = [at for at in lost[worker] if trouble.at <= at <= trouble.until + NOTICE_SECONDS]
        if noticed:
            yield Trouble(trouble.what, worker, trouble.at, max(trouble.until, noticed[0]))


def _concerns(trouble: Trouble, worker: str, pid: int | None) -> bool:
    if trouble.what == "child":
        return trouble.pid == pid
    return trouble.worker in ("", worker)


def _killed(history: History, troubles: list[Trouble]) -> int:
    """How often the message was acknowledged, and its process killed before the task had ended.

    Early ack asks for that; late ack without ``reject_on_worker_lost`` does when a child is killed.
    """
    return sum(
        any(
            trouble.what in DEATHS
            # The main process gives a killed child's task up seconds later.
            and (trouble.what == "child" or trouble.until >= at - GRACE_SECONDS)
            and _concerns(trouble, worker, pid)
            and not _ended(history, worker, at)
            for trouble in troubles
        )
        for worker, pid, at in _acknowledged(history)
    )


def _acknowledged(history: History) -> Iterator[tuple[str, int | None, float]]:
    """Each acknowledgement: by which worker, for which process, when."""
    accepted: dict[str, int] = {}
    for entry in history.entries:
        worker = str(entry.more.get("worker", ""))
        if entry.event == "accepted":
            accepted[worker] = int(entry.more["accepted_by"])
        elif entry.event == "acking":
            yield worker, accepted.get(worker), entry.at


def _ended(history: History, worker: str, acked_at: float) -> bool:
    """Whether the run that this worker has acknowledged has come to an end."""
    return any(
        run.outcome and run.worker == worker and run.ended_at >= acked_at - GRACE_SECONDS
        for run in history.runs
    ) or (history.is_late and any(run.outcome and run.worker == worker for run in history.runs))


def _excuses(history: History, troubles: list[Trouble]) -> int:
    """How many times the message may have been given out again.

    A message is given out again if its worker, child or connection died between the start of its
    run and its acknowledgement; or published twice, if the publisher could not hear the answer.
    """
    runs = sum(
        any(
            _concerns(trouble, run.worker, run.pid)
            and run.started_at <= trouble.until + GRACE_SECONDS
            and _acknowledged_at(history, run) >= trouble.at - GRACE_SECONDS
            for trouble in troubles
        )
        for run in history.runs
    )
    return runs + sum(
        any(
            trouble.what in CONNECTION_TROUBLES + DEATHS
            and trouble.worker in ("", worker)
            and begun <= trouble.until + GRACE_SECONDS
            and done >= trouble.at - GRACE_SECONDS
            for trouble in troubles
        )
        for worker, begun, done in history.tries
    )


def _acknowledged_at(history: History, run: Run) -> float:
    """When the run's message was acknowledged: at its start with early ack, after it with late."""
    return run.acked_at if history.is_late else run.started_at
