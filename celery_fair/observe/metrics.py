"""The one table of metrics: name, type, labels, help, and where each stands in a worker's facts.

``python -m celery_fair.observe.metrics`` prints it as docs/metrics.md has it. Nothing here needs a
metrics library; `celery_fair.observe.prometheus` makes Prometheus's of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from celery_fair.observe.clearing import ANSWERS, RETURNS
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.observe.reading import (
    Reader,
    Samples,
    by_kind,
    counted,
    counted_by_kind,
    durations,
    flag,
    gate_changes,
    named,
    of_resources,
    of_resources_by_kind,
    of_tenants,
    one,
    parts,
    paused,
    queues,
    task_outcomes,
    task_runs,
    task_waits,
    timestamp,
    worker_info,
)
from celery_fair.policy.idle import Idle
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.load import Mode

PREFIX: Final = "celery_fair_"

Type = Literal["counter", "gauge", "histogram", "info", "summary"]


class Metric(NamedTuple):
    """One family. The label ``worker``, a node name, comes before ``labels``."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str
    read: Reader

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which its samples are found."""
        ends = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
        return tuple(self.name + end for end in ends.get(self.type, ("",)))


def _metric(name: str, type: Type, labels: str, help: str, read: Reader) -> Metric:
    return Metric(PREFIX + name, type, tuple(labels.split()), help, read)


METRICS: Final = (
    _metric("worker_info", "info", "version mode",
        "Always 1. Version of celery-fair, and enforce or observe.",
        worker_info),
    _metric("worker_start_timestamp_seconds", "gauge", "",
        "When it started, and every counter with it.",
        timestamp("started_at")),
    # Do people wait?
    _metric("wait_seconds", "histogram", "kind",
        "From when a task could run (publish, or ETA) to when the pool took it.",
        durations("waits")),
    _metric("run_seconds", "histogram", "kind",
        "How long a task had its slot.",
        durations("runs")),
    _metric("waiting_tasks", "gauge", "kind part",
        "What waits: ready at the broker (the same messages for all who consume its queue), held "
        "here, rate_limited here, scheduled here for later (ETA, countdown). Ready is missing "
        "while the broker's counts can't be read.",
        parts),
    _metric("queue_ready_tasks", "gauge", "kind queue",
        "Messages ready in one queue, over all its priorities; each worker that consumes it "
        "counts the same ones: take max by (queue).",
        queues),
    _metric("tenants_waiting", "gauge", "kind",
        "How many tenants have tasks held here; missing until a task names one.",
        of_tenants("waiting")),
    _metric("tenant_longest_wait_seconds", "gauge", "kind",
        "For how long the task of a tenant has been held here, the longest.",
        of_tenants("longest_wait_seconds")),
    _metric("source_available", "gauge", "kind",
        "1 while it is known what is ready at the broker.",
        by_kind("source_available")),
    # Who holds the slots?
    _metric("slots", "gauge", "",
        "Places in the pool.",
        one("slots", "total")),
    _metric("running_tasks", "gauge", "kind",
        "Slots taken.",
        by_kind("running")),
    _metric("reserve_slots", "gauge", "",
        "Slots that batch may not take.",
        one("slots", "reserve")),
    _metric("batch_ceiling_slots", "gauge", "",
        "How many batch tasks may run now.",
        one("slots", "batch_ceiling")),
    _metric("batch_guaranteed_slots", "gauge", "",
        "How many batch tasks may run whatever interactive does, when owed.",
        one("slots", "guaranteed_to_batch")),
    _metric("slot_seconds_total", "counter", "kind",
        "Slot time that tasks have had, those that run now included.",
        by_kind("slot_seconds")),
    _metric("idle_slot_seconds_total", "counter", "reason",
        "Slot time in which a slot was free though something waited, and why.",
        named(("slots", "idle_seconds"), Idle)),
    _metric("paused", "gauge", "kind",
        "1 while somebody has paused the kind.",
        paused),
    _metric("credit_tasks", "gauge", "kind",
        "How many messages the worker may hold.",
        by_kind("credit")),
    _metric("estimated_run_seconds", "gauge", "kind",
        "Mean run time that the policy reckons with.",
        by_kind("mean_run_seconds")),
    # Does batch progress?
    _metric("dispatched_total", "counter", "kind",
        "Tasks given to the pool.",
        by_kind("dispatched")),
    _metric("finished_total", "counter", "kind outcome",
        "Tasks that have left their slot, and how.",
        counted_by_kind("finished", OUTCOMES)),
    _metric("dropped_total", "counter", "kind reason",
        "Tasks that ended without a slot.",
        counted_by_kind("dropped", DROPS)),
    _metric("given_back_total", "counter", "kind",
        "Held tasks that went back to the broker.",
        by_kind("given_back")),
    _metric("would_have_held_total", "counter", "kind",
        "Observe mode: tasks that would have waited here.",
        by_kind("would_have_held")),
    _metric("batch_last_start_timestamp_seconds", "gauge", "",
        "When a batch task last got a slot; 0 while none has.",
        timestamp("last_batch_start")),
    _metric("batch_share_guaranteed_ratio", "gauge", "",
        "Part of the slot time that batch has now for certain, aging included.",
        one("share", "guaranteed")),
    _metric("batch_share_received_ratio", "gauge", "",
        "Part of the slot time that batch got over the last minutes in which both kinds wanted "
        "slots; missing if there were none.",
        one("share", "received")),
    _metric("batch_debt_seconds", "gauge", "",
        "Slot-seconds that batch is owed; negative where it had more.",
        one("share", "debt_seconds")),
    _metric("batch_owed", "gauge", "",
        "1 while batch comes first, for what it is owed.",
        flag("share", "owed")),
    # The gate
    _metric("gate_protected", "gauge", "",
        "1 while the gate protects interactive tasks, 0 while it is open.",
        lambda source: [((), float(source.facts["gate"]["mode"] == Mode.PROTECTED.value))]),
    _metric("gate_changes_total", "counter", "mode cause",
        "Changes to that mode.",
        gate_changes),
    _metric("gate_seconds_total", "counter", "mode",
        "Time spent in that mode.",
        named(("gate", "seconds"), Mode)),
    _metric("gate_blind", "gauge", "",
        "1 while nobody can say whether interactive tasks wait at the broker.",
        flag("gate", "blind")),
    _metric("engine_pressure", "gauge", "",
        "How much waits in the engine behind the tasks, 1 being as much as is fine; missing "
        "without a load probe, and while it gives no answer.",
        one("engine", "pressure")),
    _metric("engine_queueing", "gauge", "",
        "1 while batch gives way to an engine that queues.",
        flag("engine", "queueing")),
    _metric("engine_unknown", "gauge", "",
        "1 while there is a load probe and no answer of it that is new enough.",
        flag("engine", "unknown")),
    _metric("engine_probe_failures_total", "counter", "",
        "Answers of the load probe that were an error, or meant nothing.",
        one("engine", "failures")),
    # What all workers share; each tells the same of all of them
    _metric("resource_places", "gauge", "resource",
        "How many tasks that use it may run at once, in all workers; missing where there is no "
        "bound. The same from each worker: take max by (resource).",
        of_resources("max_running")),
    _metric("resource_running_tasks", "gauge", "resource kind",
        "How many of them run, in all workers.",
        of_resources_by_kind("running")),
    _metric("resource_waiting_tasks", "gauge", "resource kind",
        "Held by workers, for a place or a part of a budget.",
        of_resources_by_kind("waiting")),
    _metric("resource_requests_left", "gauge", "resource",
        "Of the budget of requests, now; negative after more was used than estimated.",
        of_resources("requests_left")),
    _metric("resource_tokens_left", "gauge", "resource",
        "Of the budget of tokens, now; negative after more was used than estimated.",
        of_resources("tokens_left")),
    _metric("resource_rate_ratio", "gauge", "resource",
        "Part of its places and budgets that it gets, since it has refused requests (429).",
        of_resources("rate")),
    _metric("resource_slowed_seconds", "gauge", "resource",
        "How much longer batch gets none of it.",
        of_resources("slowed_seconds")),
    _metric("resources_unknown", "gauge", "",
        "1 while resources are set, and what they come to can't be asked.",
        flag("resources", "unknown")),
    # What waits here until it is cleared
    _metric("uncleared_tasks", "gauge", "kind",
        "Held without a slot and without credit: for a place, a budget or the hook.",
        counted(("clearing", "waiting"), KINDS)),
    _metric("places_held", "gauge", "resource",
        "Places at a resource that this worker has; those granted a moment ago included.",
        counted(("clearing", "places"), ())),
    _metric("places_lost_total", "counter", "",
        "Places of running tasks that had run out before they were renewed.",
        one("clearing", "lost")),
    _metric("places_returned_total", "counter", "reason",
        "Places given back unused, by reason.",
        counted(("clearing", "returned"), RETURNS)),
    _metric("resources_away", "gauge", "",
        "1 while what is shared can't be asked for, and the worker goes by its own part.",
        flag("clearing", "away")),
    _metric("resources_outages_total", "counter", "",
        "How often that has begun.",
        one("clearing", "outages")),
    _metric("hook_answers_total", "counter", "reason",
        "What before_batch has said, or has failed to say.",
        counted(("clearing", "hook", "answers"), ANSWERS)),
    _metric("hook_stuck_threads", "gauge", "",
        "Threads that hang in before_batch.",
        one("clearing", "hook", "stuck")),
    # Sensor and health
    _metric("sensor_available", "gauge", "",
        "1 while the broker's counts can be read.",
        flag("sensor", "available")),
    _metric("sensor_latency_seconds", "gauge", "",
        "How long the last reading took.",
        one("sensor", "latency_seconds")),
    _metric("sensor_reads_total", "counter", "",
        "Readings of the broker's counts.",
        one("sensor", "reads")),
    _metric("sensor_failures_total", "counter", "",
        "Readings that failed.",
        one("sensor", "failures")),
    _metric("audit_corrections_total", "counter", "",
        "Slots that nobody had given back, freed by the audit.",
        one("slots", "audited")),
    _metric("clock_skew_clamps_total", "counter", "",
        "Times from a publisher's clock that couldn't be right, and were cut.",
        one("clock_skew_clamps")),
    _metric("headers_missing_total", "counter", "",
        "Messages without celery-fair's header: served as their queue's kind.",
        one("headers", "missing")),
    _metric("headers_unreadable_total", "counter", "",
        "Messages whose header can't be read: served as their queue's kind.",
        one("headers", "unreadable")),
    _metric("batch_retries_delayed_total", "counter", "",
        "Retries of batch tasks that come later than they would, for want of budget.",
        one("retries", "delayed")),
    _metric("batch_retries_refused_total", "counter", "",
        "Retries of batch tasks that were not made: the budget is used up for too long.",
        one("retries", "refused")),
    _metric("yields_asked_total", "counter", "",
        "Running batch tasks that were asked to give their slot to an interactive one.",
        one("yielding", "asked")),
    _metric("yield_slots_back_total", "counter", "",
        "Slots that were given back by tasks which were asked.",
        one("yielding", "slots_back")),
    _metric("yield_reaction_seconds_total", "counter", "",
        "Seconds from being asked until the task saw it, of those that did.",
        one("yielding", "reaction_seconds")),
    _metric("yield_slot_back_seconds_total", "counter", "",
        "Seconds from being asked until the slot was back.",
        one("yielding", "slot_back_seconds")),
    _metric("observer_failures_total", "counter", "",
        "Exceptions that observers of the app have raised.",
        one("observer_failures")),
    _metric("fleet_workers", "gauge", "",
        "Workers of the same queues that this one counts, itself included.",
        one("fleet", "workers")),
    _metric("fleet_slots", "gauge", "",
        "Their slots.",
        one("fleet", "slots")),
    _metric("fleet_in_sight", "gauge", "",
        "1 while it hears of the others.",
        flag("fleet", "in_sight")),
    # By task
    _metric("task_finished_total", "counter", "kind task outcome",
        "As finished_total, by name; succeeded and failed are there from the start.",
        task_outcomes),
    _metric("task_wait_seconds", "summary", "kind task",
        "Waits added up, and their number.",
        task_waits),
    _metric("task_run_seconds", "summary", "kind task",
        "Run times added up, and their number.",
        task_runs),
)  # fmt: skip
"""Of each worker. A name isn't changed, and no label is taken away, without a word in CHANGELOG."""

UNREAD: Final = Metric(
    f"{PREFIX}unread_metrics", "gauge", (),
    "How many metrics are left out, since the worker's facts are not as this version knows them.",
    lambda source: (),
)  # fmt: skip


class Reach(NamedTuple):
    """What the exporter knows beside the facts; times are epoch seconds."""

    connected: bool
    unreadable: int
    lost: int
    last_seen: Mapping[str, float]
    replayed: Mapping[str, Mapping[str, float]] = {}
    """Of the fleet's last replay, by kind: ``measured``, ``would_be``, ``error``; what it has."""


class Own(NamedTuple):
    """A metric of the exporter; ``labels`` is all of them."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str
    read: Callable[[Reach], Samples]

    @property
    def series(self) -> tuple[str, ...]:
        """As of a `Metric`."""
        return (self.name,)


def _of_replay(reach: Reach, figure: str) -> Samples:
    return [((kind,), part[figure]) for kind, part in reach.replayed.items() if figure in part]


EXPORTER: Final = (
    Own(f"{PREFIX}exporter_connected", "gauge", (),
        "1 while the broker can be reached.",
        lambda reach: [((), float(reach.connected))]),
    Own(f"{PREFIX}exporter_workers", "gauge", (),
        "Workers heard of, and not yet silent for too long.",
        lambda reach: [((), float(len(reach.last_seen)))]),
    Own(f"{PREFIX}exporter_workers_lost_total", "counter", (),
        "Workers that fell silent without saying that they stop.",
        lambda reach: [((), float(reach.lost))]),
    Own(f"{PREFIX}exporter_unreadable_events_total", "counter", (),
        "Events that could not be understood.",
        lambda reach: [((), float(reach.unreadable))]),
    Own(f"{PREFIX}worker_last_seen_timestamp_seconds", "gauge", ("worker",),
        "When the worker's last facts came.",
        lambda reach: [((worker,), at) for worker, at in reach.last_seen.items()]),
    Own(f"{PREFIX}observed_wait_seconds", "gauge", ("kind",),
        "Observe mode: what 95 of 100 tasks of the last replay's time waited at most.",
        lambda reach: _of_replay(reach, "measured")),
    Own(f"{PREFIX}counterfactual_wait_seconds", "gauge", ("kind",),
        "The same with celery-fair, by that replay; missing where the replay is too far off.",
        lambda reach: _of_replay(reach, "would_be")),
    Own(f"{PREFIX}counterfactual_error_ratio", "gauge", ("kind",),
        "How far that replay is off what was measured, for plain Celery.",
        lambda reach: _of_replay(reach, "error")),
)  # fmt: skip
"""Of `celery fair exporter` alone."""


def documented() -> Iterator[tuple[str, str, str, str, str]]:
    """Name, type, labels, who has it, help: of every metric."""
    for metric in (*METRICS, UNREAD):
        yield metric.name, metric.type, " ".join(("worker", *metric.labels)), "both", metric.help
    for own in EXPORTER:
        yield own.name, own.type, " ".join(own.labels), "exporter", own.help


def table() -> str:
    """The table of docs/metrics.md."""
    lines = ["| name | type | labels | in | what it says |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {type} | {labels or '–'} | {where} | {help} |"
        for name, type, labels, where, help in documented()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
