"""Yielding: a batch task that runs gives its slot to interactive ones, and goes on later.

`docs/yielding.md` explains it. Here is the part of the process that runs the task; who is asked to
yield, `celery_fair.policy.yields` decides and `celery_fair.worker.yielding` carries out.
"""

from __future__ import annotations
