"""What the tests of the worker's parts share."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _warnings_are_logged(caplog) -> None:
    """Whatever level a worker in this process has left the root logger at."""
    caplog.set_level(logging.WARNING)
