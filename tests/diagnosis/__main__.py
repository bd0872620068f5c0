"""Stage the symptoms, and write what the commands say into docs/diagnosis.md."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.brokers.broker import Broker
from tests.brokers.redis import RedisServer
from tests.brokers.waiting import wait_until
from tests.diagnosis.shop import make_app
from tests.diagnosis.stages import STAGES, Stage, facts_of
from tests.nodes.worker import ROOT, WorkerProcess

PAGE = ROOT / "docs" / "diagnosis.md"
APP = "tests.diagnosis.shop"


def main(names: list[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or STAGES:
            print(name, flush=True)
            said = staged(STAGES[name], Path(folder))
            print(said)
            text = written(text, name, said)
    PAGE.write_text(text, encoding="utf-8")


def written(text: str, name: str, said: str) -> str:
    """The page with this output in its place, behind the mark of the stage."""
    mark = re.escape(f"<!-- stage: {name} -->\n")
    block = f"<!-- stage: {name} -->\n```text\n{said}\n```"
    found, number = re.subn(mark + r"```text\n.*?```", lambda _: block, text, flags=re.DOTALL)
    assert number == 1, f"docs/diagnosis.md has the mark of {name} {number} times"
    return found


def staged(stage: Stage, folder: Path) -> str:
    """What the commands of a stage say, as one sees it in a terminal."""
    server = RedisServer(folder)
    worker = app = None
    try:
        broker = Broker("redis", server.start().url, server.url)
        env = {"SHOP_BROKER": broker.url, **stage.environ()}
        plain = {"SHOP_PLAIN": "1"} if stage.is_plain else {}
        worker = WorkerProcess(
            APP, broker, folder / "log", hostname="web1@shop", args=stage.worker,
            env={**env, **plain},
        ).start()  # fmt: skip
        app = make_app(env)
        first = stage.load(app) or ""
        if not stage.is_plain:
            wait_until(lambda: stage.settled(facts_of(app)), "the situation", timeout=60)
        said = [first] if first.startswith(">>>") else []
        said += [_typed(command.format(task=first), env) for command in stage.commands]
        if stage.log:
            said += _logged(worker, stage.log)
        return "\n".join(said)
    finally:
        if app is not None:
            app.close()
        if worker is not None:
            worker.close()
        server.close()


def _logged(worker: WorkerProcess, words: str) -> list[str]:
    """The last lines of its log that have these words, from their brace on, and folded."""
    wait_until(lambda: words in worker.log_text(), "a line of the log")
    lines = [line[line.find("{") :] for line in worker.log_text().splitlines() if words in line]
    return textwrap.wrap(lines[-1].replace(",", ", "), 78)


def _typed(command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", APP, *command.split()],
        cwd=ROOT, env={**os.environ, **env, "COLUMNS": "80"}, capture_output=True, text=True,
    )  # fmt: skip
    said = done.stdout + done.stderr
    lines = said.replace(f"{getpass.getuser()}@{socket.gethostname()}", "ann@ops").splitlines()
    return "\n".join([f"$ celery -A shop {command}", *(line.rstrip() for line in lines)]).rstrip()


if __name__ == "__main__":
    main(sys.argv[1:])
