"""A team's plain app: its worker stops over a batch backlog, and starts with two lines more."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.fixtures import watch
from tests.brokers.waiting import wait_until
from tests.nodes.worker import QUIET_FLAGS, ROOT, CeleryProcess

PLAIN = """
import json, os, time
from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.task_routes = {"shop.report": {"queue": "reports"}}
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True

def note(what):
    line = json.dumps([what, time.time()]) + "\\n"
    file = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)

@app.task(name="shop.answer")
def answer(number):
    note(f"answer {number}")

@app.task(name="shop.report")
def report(number):
    note(f"report {number}")
    time.sleep(0.4)
"""

TWO_LINES = """
from celery_fair import Fair
fair = Fair(app, queues={"batch": ["reports"]})
"""

CONSOLE = """
import sys
import shop
print("ready", flush=True)
for line in sys.stdin:
    task, count = line.split()
    for number in range(int(count)):
        shop.app.tasks[task].delay(number)
    print("published", flush=True)
"""

REPORTS, ANSWERS = 24, 6


class Shop:
    """The team's folder, worker and console."""

    def __init__(self, folder: Path, broker_url: str) -> None:
        self.folder = folder
        self.env = {"SHOP_BROKER": broker_url, "PYTHONPATH": f"{folder}:{ROOT}"}
        (folder / "shop.py").write_text(PLAIN)
        (folder / "console.py").write_text(CONSOLE)
        self._consoles = contextlib.ExitStack()

    def worker(self) -> CeleryProcess:
        command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-l", "INFO", "-c", "2"]
        command += ["-Q", "celery,reports", "-n", "shop@test", *QUIET_FLAGS]
        return CeleryProcess(
            "shop", command, self.folder / "worker.log", env=self.env, cwd=self.folder
        )

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def open_console(self) -> None:
        """A console of the team's code as it is now; it takes a while, so before it is needed."""
        console = self._consoles.enter_context(
            subprocess.Popen(
                [sys.executable, "console.py"],
                cwd=self.folder,
                env={**os.environ, **self.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self._consoles.callback(console.kill)
        assert console.stdout.readline() == "ready\n"
        self._console = console

    def publish(self, task: str, count: int) -> None:
        self._console.stdin.write(f"{task} {count}\n")
        self._console.stdin.flush()
        assert self._console.stdout.readline() == "published\n"

    def close(self) -> None:
        self._consoles.close()
        self.process.close()

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)[0] for line in lines]

    def wait_for(self, word: str, count: int) -> list[str]:
        def there() -> bool:
            return sum(note.startswith(word) for note in self.notes()) >= count

        wait_until(there, lambda: f"{count} × {word}: {self.notes()}", timeout=40)
        return self.notes()


@pytest.fixture
def shop(request, tmp_path, broker_url):
    shop = Shop(tmp_path, broker_url)
    worker = shop.process = shop.worker()
    watch(request, worker)
    yield shop
    shop.close()


@pytest.mark.brokers("redis", "rabbitmq")
def test_two_lines_and_a_restart_let_answers_start_before_a_backlog_of_reports(shop):
    shop.open_console()
    worker = shop.process.start()
    shop.publish("shop.report", REPORTS)
    shop.wait_for("report", 1)
    assert worker.stop(30) == 0
    ran_before = len(shop.notes())
    assert ran_before < REPORTS // 2

    with (shop.folder / "shop.py").open("a") as file:
        file.write(TWO_LINES)
    shop.open_console()
    worker.start()
    shop.wait_for("report", ran_before + 1)
    shop.publish("shop.answer", ANSWERS)
    notes = shop.wait_for("answer", ANSWERS)
    assert len(notes) < REPORTS, "the answers came behind the backlog"

    first = next(at for at, note in enumerate(notes) if note.startswith("answer"))
    last = max(at for at, note in enumerate(notes) if note.startswith("answer"))
    assert sum(note.startswith("report") for note in notes[first:last]) <= 2

    notes = shop.wait_for("report", REPORTS)
    assert sorted(notes) == sorted(
        [f"report {n}" for n in range(REPORTS)] + [f"answer {n}" for n in range(ANSWERS)]
    )
    status = shop.run("-m", "celery", "-A", "shop", "fair", "status", "--json")
    assert "shop@test" in status


@pytest.mark.brokers("redis")
def test_without_the_two_lines_the_answers_wait(shop):
    """The same load on plain Celery: what the test above would look like if it proved nothing."""
    shop.open_console()
    shop.process.start()
    shop.publish("shop.report", REPORTS)
    shop.wait_for("report", 1)
    shop.publish("shop.answer", ANSWERS)
    notes = shop.wait_for("answer", ANSWERS)
    answer = next(at for at, note in enumerate(notes) if note.startswith("answer"))
    assert sum(note.startswith("report") for note in notes[:answer]) >= 2 + 4
