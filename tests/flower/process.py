"""Flower as a child process, and what can be asked of it over HTTP."""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.brokers.broker import Broker
from tests.brokers.process import ChildProcess, free_port
from tests.nodes.worker import ROOT


class Answer(NamedTuple):
    status: int
    text: str
    headers: Any


class FlowerProcess(ChildProcess):
    """``celery -A APP fair flower …``, or another command with the same options."""

    def __init__(
        self,
        broker: Broker,
        log: Path,
        *options: str,
        app: str = "tests.apps.mixed",
        command: Sequence[str] = ("fair", "flower"),
        prefix: str = "",
        cwd: Path = ROOT,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}" + (f"/{prefix}" if prefix else "")
        arguments = [f"--port={self.port}", "--address=127.0.0.1", *options]
        if prefix:
            arguments.append(f"--url_prefix={prefix}")
        line = [sys.executable, "-m", "celery", "-A", app, *command, *arguments]
        env = {**broker.environ(), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
        super().__init__("flower", line, log, env=env, cwd=cwd)

    def is_ready(self) -> bool:
        """It answers, and its thread hears events: what is published before that is lost."""
        return "Connected to" in self.log_text() and self.get("/healthcheck").status == 200

    def get(self, path: str, user: str | None = None, method: str = "GET") -> Answer:
        request = urllib.request.Request(self.url + path, method=method)
        if user:
            encoded = base64.b64encode(user.encode()).decode()
            request.add_header("Authorization", f"Basic {encoded}")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return Answer(response.status, response.read().decode(), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), error.headers)
        except OSError:
            return Answer(0, "", {})

    def data(self, user: str | None = None) -> dict[str, Any]:
        """The figures, as the page gets them."""
        return json.loads(self.get("/fair/data", user).text)

    def hears(self, number: int = 1) -> dict[str, Any]:
        """The figures, once so many workers are among them."""

        def figures() -> dict[str, Any] | None:
            data = self.data()
            return data if len(data["workers"]) >= number else None

        return self.wait_for(figures, f"hearing of {number} workers", timeout=20)

    def tasks(self) -> list[dict[str, Any]]:
        """The rows of Flower's table of tasks."""
        form = "draw=1&start=0&length=100&order[0][column]=0&columns[0][data]=received"
        with urllib.request.urlopen(
            f"{self.url}/tasks/datatable", data=form.encode(), timeout=10
        ) as response:
            return json.load(response)["data"]
