"""Runs the trials, each in the environment of its contestant and on a broker of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import machine, ruler
from tests.benchmarks.others.contestants import CONTESTANTS, Contestant
from tests.benchmarks.servers import own_server

EXTRAS = {"others": "redis", "arq": "httpx"}
"""The script wants one; for arq it must not bring redis, and httpx brings nothing to speak of."""
REQUIREMENTS = Path(__file__).with_name("requirements")
PATIENCE_SECONDS = 240.0
STOP_SECONDS = 40.0
REPORTED_LINES = 12

_live: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True)
class Trial:
    contestant: Contestant
    load: str
    seed: int

    @property
    def alone(self) -> bool:
        return self.load in self.contestant.alone_under

    def __str__(self) -> str:
        return f"{self.load}-{self.seed}-{self.contestant.name}"


def python_of(environment: str) -> str:
    """The interpreter of an environment, which is made where it is missing or out of date."""
    if not environment:
        return sys.executable
    folder = ruler.ROOT / f".venv-{environment}"
    wanted = REQUIREMENTS / f"{environment}.txt"
    stamp = folder / ".has-requirements"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        script = [str(ruler.ROOT / "scripts" / "venv"), folder.name, EXTRAS[environment]]
        subprocess.run([*script, "--requirement", str(wanted)], check=True, cwd=ruler.ROOT)
        stamp.write_text(wanted.read_text())
    return str(folder / "bin" / "python")


def trials(loads: Sequence[str], seeds: int, names: Sequence[str]) -> list[Trial]:
    """All, forwards and backwards by turns, so that drift of the machine falls on all alike."""
    found = []
    for load in loads:
        for seed in range(1, seeds + 1):
            turn = names if seed % 2 else names[::-1]
            found += [Trial(CONTESTANTS[name], load, seed) for name in turn]
    return found


def run_all(
    wanted: Sequence[Trial], folder: Path, parallel: int, duration: float | None
) -> Iterator[tuple[Trial, dict[str, Any]]]:
    """Run them and keep each result below ``folder``; what failed has its reason as ``failed``."""
    pythons = {name: _python(name) for name in {one.contestant.environment for one in wanted}}
    beside = [one for one in wanted if not one.alone]
    alone = [one for one in wanted if one.alone]

    def kept(trial: Trial) -> tuple[Trial, dict[str, Any]]:
        python = pythons[trial.contestant.environment]
        return trial, _keep(trial, _run(trial, python, folder, duration), folder)

    for some, at_once in ((beside, parallel), (alone, 1)):
        with ThreadPoolExecutor(at_once) as pool:
            waiting = {pool.submit(kept, one) for one in some}
            try:
                while waiting:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in finished:
                        yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                _stop_all()
                raise


def _python(environment: str) -> str | Exception:
    """Not having an environment is a failure of its contestants, not of all."""
    try:
        return python_of(environment)
    except (OSError, subprocess.CalledProcessError) as error:
        return error


def _keep(trial: Trial, found: dict[str, Any], folder: Path) -> dict[str, Any]:
    run = {
        "contestant": trial.contestant.name,
        "load": trial.load,
        "seed": trial.seed,
        **found,
    }
    (folder / f"{trial}.json").write_text(json.dumps(run))
    return run


def _run(
    trial: Trial, python: str | Exception, folder: Path, duration: float | None
) -> dict[str, Any]:
    if isinstance(python, Exception):
        return {"failed": f"its environment could not be made: {python}"}
    began = machine.moment()
    logs = folder / "logs"
    output = logs / f"{trial}.out"
    output.unlink(missing_ok=True)
    try:
        # The server dies with the thread that started it: all of this stays in one.
        with own_server(trial.contestant.broker) as server:
            broker = server.version
            command = [
                python, "-m", "tests.benchmarks.others.trial", trial.contestant.name,
                "--broker", server.broker.url, "--load", trial.load, "--seed", str(trial.seed),
                "--output", str(output), "--log", str(logs / f"{trial}.workers.log"),
                *([f"--duration={duration:g}"] if duration else []),
            ]  # fmt: skip
            said = _call(command)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}", "began": began}
    if not output.exists():
        (logs / f"{trial}.failure.txt").write_text(said)
        return {"failed": _reason(said), "began": began}
    found = json.loads(output.read_text())
    output.unlink()
    return {**found, "began": began, "server": broker, "machine": machine.versions()}


def _reason(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "ended without a word"


def _call(command: Sequence[str]) -> str:
    """Run a trial in a session of its own, and end it when it takes too long; what it said."""
    paths = [str(ruler.ROOT), str(ruler.folder())]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    _live.add(process)
    try:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return said
    except subprocess.TimeoutExpired:
        _end(process)
        return f"had not ended after {PATIENCE_SECONDS:.0f} s"
    finally:
        _live.discard(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Its workers die with it, if it can't stop them itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop_all() -> None:
    for process in list(_live):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    deadline = time.monotonic() + STOP_SECONDS
    while _live and time.monotonic() < deadline:
        time.sleep(0.1)
