"""How a metric is read from a worker's facts.

Facts may come from another version, or from whoever may publish events: a reader raises on what
isn't as it should be, and never gives a label value from outside a bounded set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from itertools import accumulate
from math import isfinite
from typing import Any, Final, NamedTuple

from celery_fair.observe.clearing import MOST as MOST_PLACES
from celery_fair.observe.counts import BOUNDS
from celery_fair.observe.endings import FAILED, OUTCOMES, SUCCEEDED
from celery_fair.observe.resources import MOST
from celery_fair.policy.gate import CAUSES
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.load import Mode

LABEL_LENGTH: Final = 200

OTHER: Final = "other"
"""What a newer version may have, and this one has no name for; never there at 0."""


class Source(NamedTuple):
    """What is known of one worker: its facts, and the counts of its tasks by name."""

    facts: Mapping[str, Any]
    tasks: Collection[Mapping[str, Any]]


class Buckets(NamedTuple):
    """A histogram: how many were at most so long, by bound and in all; and their sum."""

    cumulative: tuple[float, ...]
    sum_seconds: float


class Summed(NamedTuple):
    """How many, and their sum."""

    number: float
    sum_seconds: float


Samples = Iterable[tuple[tuple[str, ...], "float | Buckets | Summed"]]
Reader = Callable[[Source], Samples]


def number(value: Any) -> float:
    """Return a finite number, or raise: NaN would poison every sum it is in."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    found = float(value)
    if not isfinite(found):
        raise ValueError(f"expected a finite number, got {found}")
    return found


def label(value: Any) -> str:
    """Return a label's value: short, and text that can be encoded."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value[:LABEL_LENGTH].encode(errors="backslashreplace").decode()


def _at(facts: Mapping[str, Any], path: Iterable[str]) -> Any:
    for name in path:
        facts = facts[name]
    return facts


def one(*path: str) -> Reader:
    """One number; no sample where it is ``None``, which means that it isn't known."""

    def read(source: Source) -> Samples:
        value = _at(source.facts, path)
        return [] if value is None else [((), number(value))]

    return read


def flag(*path: str) -> Reader:
    """1 for true, 0 for false."""

    def read(source: Source) -> Samples:
        value = _at(source.facts, path)
        if not isinstance(value, bool):
            raise TypeError(f"expected true or false, got {type(value).__name__}")
        return [((), float(value))]

    return read


def timestamp(*path: str) -> Reader:
    """Epoch seconds; 0 for never."""

    def read(source: Source) -> Samples:
        value = _at(source.facts, path)
        return [((), 0.0 if value is None else number(value))]

    return read


def worker_info(source: Source) -> Samples:
    facts = source.facts
    return [((label(facts["version"]), label(facts["mode"])), 1.0)]


def by_kind(name: str) -> Reader:
    """One number of each kind."""
    return lambda source: [((kind,), number(source.facts["kinds"][kind][name])) for kind in KINDS]


def paused(source: Source) -> Samples:
    """1 for a kind that is paused as a whole, 0 else; a drain stops both without pausing them.

    A worker that only observes has noted its pauses, and runs what comes.
    """
    steering = source.facts["steering"]
    ordered = () if steering.get("not_in_force") else steering["paused"]
    found = {one["kind"] for one in ordered if one["queue"] is None}
    return [((kind,), float(kind in found)) for kind in KINDS]


def counted_by_kind(name: str, known: Iterable[str]) -> Reader:
    """Numbers by kind and by a name: the ``known`` ones at 0 from the start."""
    known = tuple(known)
    return lambda source: [
        ((kind, key), value)
        for kind in KINDS
        for key, value in _counted(source.facts["kinds"][kind][name], known)
    ]


def named(path: tuple[str, ...], known: Iterable[Enum]) -> Reader:
    """Numbers by a name: the ``known`` ones at 0 from the start."""
    names = tuple(one.value for one in known)
    return lambda source: [((key,), v) for key, v in _counted(_at(source.facts, path), names)]


def counted(path: tuple[str, ...], known: Iterable[str]) -> Reader:
    """Numbers by words; where none are ``known`` before, by whatever there is."""
    names = tuple(known)

    def read(source: Source) -> Samples:
        found = _at(source.facts, path)
        if not names:
            told = {label(name): number(value) for name, value in list(found.items())[:MOST_PLACES]}
            return [((name,), value) for name, value in told.items()]
        return [((name,), value) for name, value in _counted(found, names)]

    return read


def gate_changes(source: Source) -> Samples:
    changes = source.facts["gate"]["changes"]
    return [
        ((mode.value, cause), value)
        for mode in Mode
        for cause, value in _counted(changes[mode.value], [one.value for one in CAUSES[mode]])
    ]


def _counted(found: Mapping[str, Any], known: Iterable[str]) -> Iterable[tuple[str, float]]:
    counted = dict.fromkeys(known, 0.0)
    for name, value in found.items():
        key = name if name in counted else OTHER
        counted[key] = counted.get(key, 0.0) + number(value)
    return counted.items()


def durations(name: str) -> Reader:
    """A histogram of each kind."""
    return lambda source: [((kind,), _buckets(source.facts["kinds"][kind][name])) for kind in KINDS]


def _buckets(found: Mapping[str, Any]) -> Buckets:
    counts = [number(count) for count in found["buckets"]]
    if len(counts) != len(BOUNDS) + 1:
        raise ValueError(f"expected {len(BOUNDS) + 1} buckets, got {len(counts)}")
    return Buckets(tuple(accumulate(counts)), number(found["sum"]))


def parts(source: Source) -> Samples:
    """What waits, by kind and part."""
    for kind in KINDS:
        found = source.facts["kinds"][kind]
        ready = found["ready"]
        if ready is not None:
            total = sum(map(number, ready.values())) + number(found["ready_left_out"])
            yield (kind, "ready"), total
        for part in ("held", "rate_limited", "scheduled"):
            yield (kind, part), number(found[part])


def queues(source: Source) -> Samples:
    """What is ready by queue; 0 is certain only where no queue was left out of the facts."""
    for kind in KINDS:
        found = source.facts["kinds"][kind]
        ready = found["ready"]
        if ready is None:
            continue
        known = dict.fromkeys(found["queues"], 0) if not found["ready_left_out"] else {}
        for queue, count in {**known, **ready}.items():
            yield (kind, label(queue)), number(count)


def of_tenants(name: str) -> Reader:
    """One number of the tenants of a kind, where they take turns."""
    return lambda source: [
        ((kind,), number(found[name]))
        for kind in KINDS
        if (found := source.facts["kinds"][kind].get("tenants")) is not None
    ]


def of_resources(name: str) -> Reader:
    """One number of each resource that has it."""
    return lambda source: [
        ((resource,), number(one[name]))
        for resource, one in _resources(source).items()
        if one[name] is not None
    ]


def of_resources_by_kind(name: str) -> Reader:
    """Numbers by resource and kind."""
    return lambda source: [
        ((resource, kind), number(one[name][kind]))
        for resource, one in _resources(source).items()
        for kind in KINDS
    ]


def _resources(source: Source) -> dict[str, Mapping[str, Any]]:
    """By label: a sample that came twice would spoil the page, and so would ten thousand."""
    told = source.facts["resources"]["of"][:MOST]
    return {label(one["name"]): one for one in told}


def task_outcomes(source: Source) -> Samples:
    """How tasks ended, by name; of the ways to end the two that a rate of errors is made of."""
    for (kind, name), task in _tasks(source).items():
        found = {SUCCEEDED: 0, FAILED: 0, **task["outcomes"]}
        for outcome, count in _counted(found, OUTCOMES):
            if outcome in found or count:
                yield (kind, name, outcome), count


def task_waits(source: Source) -> Samples:
    """Waits added up, by name: those that are known."""
    for labels, task in _tasks(source).items():
        yield labels, Summed(number(task["waits"]), number(task["wait_seconds"]))


def task_runs(source: Source) -> Samples:
    """Run times added up, by name."""
    for labels, task in _tasks(source).items():
        count = sum(map(number, task["outcomes"].values()))
        yield labels, Summed(count, number(task["run_seconds"]))


def _tasks(source: Source) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (task["kind"], label(task["task"])): task for task in source.tasks if task["kind"] in KINDS
    }
