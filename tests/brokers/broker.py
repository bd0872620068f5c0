"""What a test and a worker need to know to reach the same broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Broker:
    """A broker's URL, the result backend that goes with it, and its transport options."""

    name: str
    url: str
    backend: str
    transport_options: Mapping[str, object] = field(default_factory=dict)

    def conf(self) -> dict[str, object]:
        """The same as Celery settings."""
        return {
            "broker_url": self.url,
            "broker_transport_options": dict(self.transport_options),
            "result_backend": self.backend,
        }

    def environ(self) -> dict[str, str]:
        """The same as the environment that the apps in ``tests/apps`` read."""
        return {
            "BROKER": self.url,
            "BROKER_OPTIONS": json.dumps(self.transport_options),
            "BACKEND": self.backend,
        }

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Broker:
        """The broker that ``environ()`` described, in the worker's process."""
        return cls(
            "environment",
            environ.get("BROKER", "memory://"),
            environ.get("BACKEND", "cache+memory://"),
            json.loads(environ.get("BROKER_OPTIONS", "{}")),
        )


def memory_broker() -> Broker:
    """A broker inside this process only."""
    return Broker("memory", "memory://", "cache+memory://", {"polling_interval": POLL_SECONDS})


def filesystem_broker(folder: Path) -> Broker:
    """Messages and results as files; reaches every process on the machine."""
    for name in ("messages", "control", "results"):
        (folder / name).mkdir(parents=True)
    options = {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
        "polling_interval": POLL_SECONDS,
    }
    return Broker("filesystem", "filesystem://", f"file://{folder / 'results'}", options)


def sqlite_broker(folder: Path) -> Broker:
    """Messages and results in SQLite files; has no remote control and no events."""
    folder.mkdir(parents=True)
    return Broker(
        "sqlite", f"sqla+sqlite:///{folder / 'broker.db'}", f"db+sqlite:///{folder / 'results.db'}"
    )
