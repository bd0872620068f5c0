"""The machine of `tests.jobs.machine` driven by chance alone, as often as each step is in use.

Hypothesis finds a short way to what is wrong; this goes far, into jobs that were paused, lost,
tried again and cancelled. A walk that fails names its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from celery_fair.jobs.plan import Plan
from tests.jobs.machine import CALLS, JOB, TASK, JobMachine

#: How often each step is taken, out of their sum.
STEPS = {
    "append_any": 5,
    "close": 1,
    "grant_and_claim": 12,
    "claim": 4,
    "report": 14,
    "renew": 2,
    "repeat": 2,
    "lose_a_worker": 3,
    "advance": 3,
    "overdue": 3,
    "call": 2,
    "pause": 1,
    "resume": 3,
    "retry_failed": 2,
    "cancel": 0.1,
}


def walk(make: Callable[[], JobMachine], seed: int, steps: int = 80) -> None:
    """Take so many steps, looking after each at what must hold, and then come to an end."""
    machine, draw, taken = make(), Random(seed), []
    machine.create(_plan(draw), draw.randint(0, 10))
    try:
        for _ in range(steps):
            taken += draw.choices(list(STEPS), STEPS.values())
            _take(machine, taken[-1], draw)
            machine.counts_are_exact()
            machine.each_item_is_in_one_place()
            machine.it_ends_when_nothing_is_left()
        machine.teardown()
    except Exception as error:
        raise AssertionError(f"walk {seed}: {' '.join(taken)}") from error


def _take(machine: JobMachine, step: str, draw: Random) -> None:
    match step:
        case "advance":
            machine.advance(draw.choice([0.5, 3.0, 31.0, 61.0]))
        case "overdue":
            machine.overdue(draw.choice([1, 100]))
        case "close":
            if machine.memory_job.submitted > 15:
                machine.close(draw.choice([0, -1, 1]))
        case "report" | "renew" | "lose_a_worker" if not machine.alive:
            machine.grant_and_claim()
        case "claim" | "repeat" | "call" if not _may(machine, step):
            machine.append_any(draw)
        case "append_any" | "claim" | "report" | "renew" | "repeat" | "call":
            getattr(machine, step)(draw)
        case _:
            getattr(machine, step)()


def _may(machine: JobMachine, step: str) -> bool:
    reported = any(chunk.last for chunk in machine.alive + machine.over)
    return bool({"claim": machine.tickets, "repeat": reported, "call": machine.due}[step])


def _plan(draw: Random) -> Plan:
    return Plan(
        id=JOB,
        task=TASK,
        total=draw.choice([None, 8]),
        chunk_items=draw.choice([None, None, 1, 3, 5]),
        backlog=draw.randint(1, 4),
        ahead=draw.randint(3, 12),
        results=draw.random() < 0.5,
        max_failures=draw.choice([None, None, 2, 0.5]),
        progress_seconds=draw.choice([0.0, 10.0]),
        calls=draw.choice([{}, CALLS]),
    )
