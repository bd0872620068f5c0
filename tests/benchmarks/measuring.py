"""Measures one run on one pool and one broker, on a server of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import machine, ruler
from tests.benchmarks.figures import FIFO, Run
from tests.benchmarks.idle import DURATION_SECONDS, measure_idle
from tests.benchmarks.servers import OwnServer, own_server

OURS = "tests.benchmarks.contestants:"
NOOP_POOLS = {"threads": "threads:8", "prefork": "prefork:2"}
# What is idle hardly varies, and takes its time.
IDLE_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """A run on a pool and a broker: what is measured in one go."""

    run: Run
    pool: str
    broker: str

    def __str__(self) -> str:
        return f"{self.run.name}-{self.pool}-{self.broker}"


@dataclass(frozen=True, slots=True)
class Options:
    """How long: figures of the issue need five rounds and no overrides.

    ``overrides`` are options of the ruler by name (``duration``, ``warmup``, ``grace``, ``tasks``);
    each measure takes those that it knows. ``lean`` leaves out who is there for the reader only.
    """

    rounds: int = 5
    overrides: Mapping[str, float] = field(default_factory=dict)
    lean: bool = False

    def arguments(self, *known: str) -> list[str]:
        given = ((name, self.overrides.get(name)) for name in known)
        return [f"--{name}={value:g}" for name, value in given if value is not None]


def measure(cell: Cell, options: Options, folder: Path) -> dict[str, Any]:
    """What was measured, as JSON values: ``load``, ``contestants``, and where and when.

    ``folder`` is made, and then has what the ruler printed and wrote, and the workers' log.
    """
    folder.mkdir(parents=True)
    began = machine.moment()
    with own_server(cell.broker) as server:
        found = _MEASURES[cell.run.measure](cell, options, server, folder)
        where = {**machine.versions(), "broker": server.version}
    return {
        "run": cell.run.name,
        "pool": cell.pool,
        "broker": cell.broker,
        "rounds": options.rounds,
        "overrides": dict(options.overrides),
        **found,
        "began": began,
        "ended": machine.moment(),
        "machine": where,
    }


def _mixed(cell: Cell, options: Options, server: OwnServer, folder: Path) -> dict[str, Any]:
    names = [*cell.run.contestants, *(() if options.lean else cell.run.beside)]
    document = _run_ruler(
        "mixed_load",
        f"--contestants={','.join(map(_spec, names))}",
        f"--scenario={cell.run.scenario}",
        f"--rounds={options.rounds}",
        f"--pool={cell.pool}",
        *options.arguments("duration", "warmup", "grace"),
        server=server,
        folder=folder,
    )
    contestants = {}
    for name in names:
        found = document["contestants"].get(_spec(name), {"rounds": []})
        if len(found["rounds"]) != options.rounds:
            raise ruler.MeasuringError(
                f"{name} finished {len(found['rounds'])} of {options.rounds} rounds; see {folder}"
            )
        contestants[name] = {key: value for key, value in found["pooled"].items() if key != "waits"}
    return {"load": document["load"], "contestants": contestants}


def _noop(cell: Cell, options: Options, server: OwnServer, folder: Path) -> dict[str, Any]:
    document = _run_ruler(
        "mixed_load.noop",
        f"--contestants={FIFO},{_spec('fair')}",
        f"--pools={NOOP_POOLS[cell.pool]}",
        f"--rounds={options.rounds}",
        *options.arguments("tasks"),
        server=server,
        folder=folder,
    )
    setups = {setup.split(" ")[0]: rounds for setup, rounds in document["setups"].items()}
    contestants = {name: {"rounds": setups[_spec(name)]} for name in cell.run.contestants}
    return {"load": {"pool": NOOP_POOLS[cell.pool]}, "contestants": contestants}


def _quiet(cell: Cell, options: Options, server: OwnServer, folder: Path) -> dict[str, Any]:
    document = _run_ruler(
        "tests.benchmarks.quiet",
        f"--contestant={_spec('fair')}",
        f"--rounds={options.rounds}",
        f"--pool={cell.pool}",
        *options.arguments("duration", "warmup"),
        server=server,
        folder=folder,
    )
    rounds = document["rounds"]
    pooled = {name: sum(one[name] for one in rounds) / len(rounds) for name in rounds[0]}
    return {"load": document["load"], "contestants": {"fair": {**pooled, "rounds": rounds}}}


def _pieces(cell: Cell, options: Options, server: OwnServer, folder: Path) -> dict[str, Any]:
    document = _run_ruler(
        "tests.benchmarks.pieces",
        f"--contestants={','.join(map(_spec, cell.run.contestants))}",
        f"--rounds={options.rounds}",
        f"--pool={cell.pool}",
        *options.arguments("duration", "warmup", "grace"),
        server=server,
        folder=folder,
    )
    found = document["contestants"]
    return {
        "load": document["load"],
        "contestants": {name: found[_spec(name)]["pooled"] for name in cell.run.contestants},
    }


def _idle(cell: Cell, options: Options, server: OwnServer, folder: Path) -> dict[str, Any]:
    seconds = options.overrides.get("duration", DURATION_SECONDS)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in cell.run.contestants}
    for index in range(min(options.rounds, IDLE_ROUNDS)):
        for name, measured in rounds.items():
            log = folder / f"{name}-{index + 1}.log"
            measured.append(measure_idle(name, server, cell.pool, seconds, log))
    contestants = {
        name: {key: median(one[key] for one in measured) for key in measured[0]}
        | {"connections": max(one["connections"] for one in measured), "rounds": measured}
        for name, measured in rounds.items()
    }
    return {"load": {"duration": seconds}, "contestants": contestants}


_MEASURES = {"mixed": _mixed, "noop": _noop, "quiet": _quiet, "pieces": _pieces, "idle": _idle}


def _spec(name: str) -> str:
    return f"{OURS}{name}" if name.startswith(("fair", "fleet", "pieces")) else name


def _run_ruler(module: str, *arguments: object, server: OwnServer, folder: Path) -> dict[str, Any]:
    text, document = folder / "table.txt", folder / "ruler.json"
    code = ruler.run(
        module,
        f"--broker={server.broker.url}",
        f"--json={document}",
        f"--log={folder / 'workers.log'}",
        *arguments,
        output=text,
    )
    if code or not document.exists():
        said = "\n".join(text.read_text(errors="replace").splitlines()[-15:])
        raise ruler.MeasuringError(f"{module} ended with {code}; see {folder}:\n{said}")
    return json.loads(document.read_text())
