"""Where and when something was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from tests.benchmarks.ruler import ROOT

PACKAGES = ("celery", "kombu", "redis", "amqp", "celery-fair")


def moment() -> dict[str, Any]:
    """The time, and how busy the machine was then."""
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions() -> dict[str, Any]:
    """The machine, and all that runs on it."""
    return {
        "cpus": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit of celery-fair, with a + if its code is not as committed; empty without git."""
    try:
        commit = _git("rev-parse", "--short", "HEAD").strip()
        return commit + ("+" if _git("status", "--porcelain", "celery_fair") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
