"""How long a broker waits for an acknowledgement, against how long we hold and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, Severity, named, rule
from celery_fair.doctor.queues import driver_type, lane_queues
from celery_fair.doctor.tasks import own_tasks
from celery_fair.errors import UnknownKind
from celery_fair.policy.kinds import Kind

#: Seconds, by ``transport.driver_type``, where ``broker_transport_options`` say nothing.
VISIBILITY_TIMEOUT: Final[Mapping[str, float]] = {"redis": 3600.0, "sqs": 1800.0}

#: RabbitMQ's default. A server's own value can't be read over AMQP, a queue's argument can.
CONSUMER_TIMEOUT: Final = 1800.0

#: A message is given back at this part of the timeout, so that neither a slow tick nor the time
#: between the broker's own looks lets a second copy out.
HOLD_PART: Final = 0.5

SHORT_FOR_RUN: Final = rule(
    "F003",
    "warning",
    "the broker's patience ends before a task's limit",
    why="A message that is acknowledged late may be held and then run for longer than the broker "
    "waits for it; then it is given out again, and the task runs twice.",
    cure="Raise visibility_timeout (Redis, SQS) or consumer_timeout (RabbitMQ) above the longest "
    "run, or lower the time limit.",
)
SHORT_FOR_HOLD: Final = rule(
    "F004",
    "warning",
    "the broker's patience is short for holding",
    why="A message that waits in a worker goes back to the broker before half of its timeout.",
    cure="Raise the broker's timeout, or lower hold_max_seconds.",
)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds until an unacknowledged message is given out again (or the channel is closed)."""

    seconds: float
    name: str
    consequence: str
    raise_it: str


def patience(fair: Fair) -> Patience | None:
    """The shortest that a message of ours meets; ``None`` where a transport has no such limit."""
    app = fair.app
    driver = driver_type(app)
    if driver in VISIBILITY_TIMEOUT:
        options = app.conf.broker_transport_options or {}
        seconds = options.get("visibility_timeout", VISIBILITY_TIMEOUT[driver])
        return Patience(
            float(seconds),
            f"visibility_timeout of {seconds:g} s",
            "the broker gives out a second copy, and the task runs twice.",
            'Raise broker_transport_options["visibility_timeout"] on workers and publishers alike',
        )
    if driver == "amqp":
        arguments = [queue.queue_arguments or {} for queue in lane_queues(fair).values()]
        own = [args["x-consumer-timeout"] / 1000 for args in arguments if _has_timeout(args)]
        seconds = min(own, default=CONSUMER_TIMEOUT)
        origin = "" if own else " (RabbitMQ's default; your server may have another)"
        return Patience(
            seconds,
            f"consumer_timeout of {seconds:g} s{origin}",
            "RabbitMQ closes the channel, and all that the worker holds is given out again.",
            "Raise consumer_timeout on the server or by a policy of the queue",
        )
    return None


def _has_timeout(arguments: Mapping[str, Any]) -> bool:
    value = arguments.get("x-consumer-timeout")
    return isinstance(value, int | float) and value > 0


def patience_findings(fair: Fair) -> Iterator[Finding]:
    limit = patience(fair)
    if limit is None:
        return
    hold, most = fair.settings.hold_max_seconds, limit.seconds * HOLD_PART
    if hold > most:
        yield SHORT_FOR_HOLD.finding(
            f"hold_max_seconds is {hold:g}, more than half of the {limit.name}",
            why=f"A message goes back after {most:g} s, since of one held for too long "
            f"{limit.consequence}",
            cure=f"{limit.raise_it}, or set hold_max_seconds to {most:g} or less.",
        )
        hold = most
    yield from _runs(fair, limit, hold)


def _runs(fair: Fair, limit: Patience, hold: float) -> Iterator[Finding]:
    """Tasks that may be held and then run for longer; an early ack ends the broker's wait."""
    limits = fair.settings.time_limits
    too_long: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for name, task in own_tasks(fair.app).items():
        seconds = task.time_limit or limits.get(kind_of(fair, name, task))
        seconds = seconds or fair.app.conf.task_time_limit
        if seconds and seconds + hold >= limit.seconds:
            too_long[bool(task.acks_late)][name] = float(seconds)
    if too_long[True]:
        yield _run(limit, hold, too_long[True], f"Held {hold:g} s and run to its limit,", "warning")
    early = {name: at for name, at in too_long[False].items() if at >= limit.seconds}
    if early:
        yield _run(
            limit, hold, early, "Harmless while they acknowledge early; with acks_late", "info"
        )


def kind_of(fair: Fair, name: str, task: Any) -> Kind:
    """What it is run as, as far as it can be known; a kind that isn't one is another finding."""
    try:
        return fair.kind_of_task(name, task) or fair.settings.default_kind
    except UnknownKind:
        return fair.settings.default_kind


def _run(
    limit: Patience, hold: float, tasks: Mapping[str, float], when: str, severity: Severity
) -> Finding:
    longest = max(tasks.values())
    return SHORT_FOR_RUN.finding(
        f"a time limit of {longest:g} s does not fit into the {limit.name}: {named(tasks)}",
        tasks,
        why=f"{when} {limit.consequence}",
        cure=f"{limit.raise_it} above {longest + hold:g} s, or lower the time limit.",
        severity=severity,
    )
