"""Which test files take long: they begin first, or the last to begin would run on by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

TESTS = Path(__file__).parent
LONGEST = (
    "integration/contract/test_contract.py",
    "integration/faults/test_fleet.py",
    "acceptance/test_example.py",
    "integration/contract/test_endings.py",
    "integration/test_identity.py",
    "integration/faults/test_holding.py",
    "integration/faults/test_slots.py",
    "integration/test_front.py",
    "integration/test_timeouts.py",
    "integration/contract/test_queues.py",
    "integration/traps/test_starvation.py",
    "acceptance/test_chaos.py",
    "integration/contract/test_windows_in_use.py",
    "integration/test_cluster.py",
    "integration/contract/test_modes.py",
    "integration/contract/test_fleet.py",
    "integration/clearing/test_limits.py",
    "integration/faults/test_connections.py",
    "integration/test_jobs.py",
    "acceptance/test_demo.py",
    "acceptance/test_adoption.py",
    "integration/traps/test_windows.py",
    "integration/traps/test_shutdown.py",
    "integration/test_retries.py",
    "integration/test_bench.py",
    "integration/test_status.py",
    "integration/test_commands.py",
    "integration/test_shards.py",
    "integration/test_observers.py",
    "integration/traps/test_slots.py",
    "integration/explain/test_situations.py",
    "integration/jobs/test_redis_store.py",
    "integration/clearing/test_outage.py",
)
"""By what they took; if this is out of date, that costs time only.

Used where tests are spread over processes; `--no-loadscope-reorder` has xdist keep to it.
"""

RANKS = {TESTS / name: rank for rank, name in enumerate(LONGEST)}


class InFile(Protocol):
    """A test, as far as it is looked at here."""

    path: Path


def rank(item: InFile) -> int:
    """For ``sort``, which keeps the order within a file."""
    return RANKS.get(item.path, len(RANKS))
