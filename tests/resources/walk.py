"""The machine of `tests.resources.machine` driven by chance alone, as often as each step is in use.

Hypothesis finds a short way to what is wrong; this goes far. A walk that fails names its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.resources.machine import TOKENS, WORKERS, ResourceMachine

#: How often each step is taken, out of their sum.
STEPS = {
    "want": 12,
    "end": 12,
    "look": 3,
    "pass_time": 8,
    "lose_an_answer": 2,
    "give_up": 2,
    "move": 1,
    "die": 0.5,
    "jump": 1,
    "sleep": 0.3,
    "charge": 2,
    "refuse": 1,
    "view": 2,
}


def walk(make: Callable[[], ResourceMachine], seed: int, steps: int = 60) -> None:
    """Take so many steps, looking after each at what must hold, and then come to an end."""
    machine, draw, taken = make(), Random(seed), []
    try:
        for _ in range(steps):
            taken += draw.choices(list(STEPS), STEPS.values())
            _take(machine, taken[-1], draw)
            machine.what_runs_is_held()
            machine.no_limit_is_exceeded()
            machine.the_counts_are_those_of_the_leases()
        machine.teardown()
    except Exception as error:
        raise AssertionError(f"walk {seed}: {' '.join(taken)}") from error


def _take(machine: ResourceMachine, step: str, draw: Random) -> None:
    name = draw.choice(WORKERS)
    match step:
        case "want" | "end" | "give_up":
            getattr(machine, step)(name, draw)
        case "pass_time":
            machine.pass_time(draw.choice([0.1, 0.5, 1.0]))
        case "jump":
            machine.jump(draw.choice([-7200.0, -5.0, 3.0, 3600.0, 1e6]))
        case "charge":
            machine.charge(draw.choice([-300, 50, 5000, *TOKENS]))
        case "refuse":
            machine.refuse(draw.choice(["openai", "gpu", "free"]), draw.choice([None, 0.5, 7.0]))
        case "view":
            machine.view()
        case _:
            getattr(machine, step)(name)
