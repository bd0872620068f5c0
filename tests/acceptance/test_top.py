"""``celery -A proj fair top`` in a terminal of its own, as one sees it there."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.fixtures import watch
from tests.brokers.process import ChildProcess, free_port
from tests.brokers.waiting import wait_until
from tests.nodes.answering import until_answered
from tests.nodes.worker import ROOT

APP = "tests.apps.mixed"
TOP = (sys.executable, "-m", "celery", "-A", APP, "fair", "top")
HEARING = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""Hears Ctrl-C, also if these tests were started in the background by a shell, which doesn't."""
LOST = "! The broker is lost, trying again. The last word was"


class Terminal:
    """A pseudo-terminal with a command in it, whose session it controls."""

    def __init__(self, log, command, env, columns=80, rows=24) -> None:
        self._master, self._slave = os.openpty()
        os.set_blocking(self._master, False)
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self._slave)
        # The shell leads its session, so the terminal that it opens is the session's.
        shell = ("sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(self._slave))
        self.process = ChildProcess("top", [*shell, *HEARING, *command], log, env=env, cwd=ROOT)
        self._written = b""

    def resize(self, columns, rows) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    @property
    def written(self) -> str:
        with suppress(BlockingIOError):
            while chunk := os.read(self._master, 65536):
                self._written += chunk
        return self._written.decode(errors="replace")

    @property
    def screen(self) -> list[str]:
        """The rows of the last frame but one: the last may have been written in part."""
        frame = self.written.rpartition("\x1b[H")[0].rpartition("\x1b[H")[2].partition("\x1b[?")[0]
        return re.sub(r"\x1b\[[0-9;]*m", "", frame).split("\r\n")

    def wait_for(self, *words: str, without: str | None = None, timeout=40.0) -> list[str]:
        """Wait for a frame with all the words in it."""

        def there():
            screen = self.screen
            text = "\n".join(screen)
            return all(word in text for word in words) and (without or "\0") not in text and screen

        return self.process.wait_for(there, f"{words} on the screen", timeout=timeout)

    def is_as_before(self) -> bool:
        """Whether modes, cursor and screen are as a shell left them."""
        written = self.written
        return (
            termios.tcgetattr(self._slave) == self.modes
            and written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
            and written.rindex("\x1b[?1049l") > written.rindex("\x1b[?1049h")
        )

    def close(self) -> None:
        self.process.close()
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def open_top(request, tmp_path):
    """``open_top(broker, …)``: `fair top` in a new terminal."""
    terminals = []

    def start(broker, *options, term="xterm-256color") -> Terminal:
        # Whoever imports readline exports its idea of the size, which would be believed.
        env = {**broker.environ(), "TERM": term, "COLUMNS": "", "LINES": ""}
        terminal = Terminal(tmp_path / "top.log", [*TOP, *options], env)
        terminals.append(terminal)
        watch(request, terminal.process)
        terminal.process.spawn()
        return terminal

    yield start
    for terminal in terminals:
        terminal.close()


def test_it_lives_through_a_lost_broker_and_leaves_the_terminal_as_it_was(
    redis_server, start_worker, journal, open_top
):
    broker = Broker("redis", redis_server.url, redis_server.url)
    start_worker(APP, broker=broker, concurrency=4)
    app = mixed.make_app(broker)
    for number in range(12):
        app.tasks["b.sleep"].delay(f"b{number}", 60)
    journal.wait_count(2, "start")
    app.close()
    top = open_top(broker)
    screen = top.wait_for(
        "fair top   1 worker, 4 slots   gates: 1 open", "w1@test  gate open", "BB"
    )
    assert {len(row) for row in screen} == {80}
    assert len(screen) == 24

    top.resize(100, 30)
    wait_until(lambda: (len(top.screen), len(top.screen[0])) == (30, 100), "the new size")

    redis_server.kill()
    top.wait_for(LOST, "w1@test  gate open")
    redis_server.restart()
    top.wait_for("w1@test  gate", without=LOST)

    top.press(b"q")
    assert top.process.wait() == 0
    assert top.is_as_before()
    assert "Traceback" not in top.written
    assert "celery-fair:" not in top.written  # what is logged doesn't run across the screen


@pytest.mark.parametrize("end", ["ctrl-c", "sigterm"])
def test_however_it_ends_the_terminal_is_as_it_was(broker, open_top, end):
    top = open_top(broker)
    top.wait_for("! No worker with celery-fair is heard of on redis://")
    if end == "ctrl-c":
        top.press(b"\x03")
        assert top.process.wait() == 0
    else:
        top.process.terminate()
        assert top.process.wait() == 143
    assert top.is_as_before()
    assert "Traceback" not in top.written


def test_a_worker_that_comes_later_is_shown(broker, open_top, start_worker):
    top = open_top(broker, "--interval", "0.3")
    top.wait_for("! No worker with celery-fair")
    start_worker(APP)
    top.wait_for("fair top   1 worker, 2 slots", "w1@test  gate open", without="! No worker")


@pytest.fixture
def run_top(request, broker):
    """One run of the command, not in a terminal."""

    def run(*options, **env) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **broker.environ(), "COLUMNS": "80", **env}

        def once():
            return subprocess.run(
                [*TOP, *options], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
            )

        return until_answered(once) if "start_worker" in request.fixturenames else once()

    return run


def test_where_there_is_no_terminal_one_frame_is_printed(start_worker, run_top):
    start_worker(APP)
    done = run_top()
    assert done.returncode == 0
    assert done.stdout.startswith("fair top   1 worker, 2 slots   gates: 1 open")
    assert "w1@test  gate open" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_no_worker_is_said_as_fair_status_says_it(run_top):
    done = run_top("--once")
    assert done.returncode == 69
    assert "No worker answered within 1 s" in done.stderr


def test_a_broker_that_is_not_there_is_one_sentence(run_top):
    done = run_top(BROKER=f"redis://127.0.0.1:{free_port()}/0")
    assert done.returncode == 69
    assert done.stderr.startswith("Error: The broker redis://127.0.0.1:")
    assert "can't be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_that_can_not_move_its_cursor_gets_one_frame(broker, start_worker, open_top):
    start_worker(APP)

    def run_once():
        top = open_top(broker, term="dumb")
        top.process.wait()
        return top

    top = until_answered(run_once, lambda top: top.process.exit_code)
    assert top.process.exit_code == 0
    assert "\x1b[?" not in top.written
    assert "w1@test  gate open" in top.written
