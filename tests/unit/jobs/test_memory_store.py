"""Jobs in memory, held to the contract of all stores."""

from __future__ import annotations

from hypothesis import settings

from tests.jobs.machine import JobMachine

TestMemoryStore = JobMachine.TestCase
TestMemoryStore.settings = settings(max_examples=80, stateful_step_count=50)
