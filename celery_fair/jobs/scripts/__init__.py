"""A job in Redis, as Lua that runs in one step each; `celery_fair.jobs.memory_steps` is the model.

Keys, under the app's prefix; ``<job>`` comes last, so that no job's name can make another's key:

- ``job.meta.<job>``: a hash of counts and times; ``job.plan.<job>``: what was submitted, as JSON;
- ``job.items.<job>``: a hash of open items by index; deleted when done, so ``ahead`` bounds it;
- ``job.back.<job>``: a sorted set of pieces that were given back, by their first index, each as
  ``losses|count|ranges``, ranges as ``first-last,first-last``;
- ``job.failures.<job>``: a hash of what failed, with the item, from its first failure until it
  succeeds; ``job.failed.<job>``: a sorted set of the indices that are failed now; and
  ``job.retry.<job>``: of those to be tried again, which is the former, renamed;
- ``job.waiting.<job>``: a sorted set of tickets, by when to publish them again, and
  ``job.waits.<job>``: how long that takes, of those that were; ``job.leases.<job>``: of those that
  have claims, by the end of their lease, and ``job.claims.<job>``: the claims, each as
  ``token|losses|reported|ranges``;
- ``job.answer.<token>.<job>``: what the last report of a claim was answered, for a minute;
- ``job.results.<block>.<job>``: a hash of results for each hundred indices;
- ``jobs``: a sorted set of all jobs, by their creation; ``jobs.open.<task>``: of those that may
  have something overdue, by when to look.

Times are milliseconds of Redis's own clock. All keys of a job expire. A script that frees memory
begins with a write that Redis allows when it is full, and is then allowed the others too.
"""

from __future__ import annotations

from celery_fair.jobs.scripts.asking import FAILURES, LIST, PLAN, PROGRESS, RESULTS
from celery_fair.jobs.scripts.changing import CALLED, CANCEL, FORGET, PAUSE, RESUME, RETRY
from celery_fair.jobs.scripts.running import CLAIM, OVERDUE, RENEW, REPORT
from celery_fair.jobs.scripts.submitting import APPEND, CLOSE, CREATE, GRANT

__all__ = (
    "APPEND",
    "CALLED",
    "CANCEL",
    "CLAIM",
    "CLOSE",
    "CREATE",
    "FAILURES",
    "FORGET",
    "GRANT",
    "LIST",
    "OVERDUE",
    "PAUSE",
    "PLAN",
    "PROGRESS",
    "RENEW",
    "REPORT",
    "RESULTS",
    "RESUME",
    "RETRY",
)
