"""Follows, in one worker, what operators order while it runs; ``docs/steering.md`` explains it."""

from __future__ import annotations

from celery_fair.worker.steering.changes import Change
from celery_fair.worker.steering.steering import Steering

__all__ = ("Change", "Steering")
