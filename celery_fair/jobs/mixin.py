"""What a `Fair` has for batch jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from celery_fair.jobs.plan import AHEAD, BACKLOG, CHUNK_SECONDS, KEEP_SECONDS

if TYPE_CHECKING:
    from celery_fair.jobs.job import Job
    from celery_fair.jobs.jobs import Jobs
    from celery_fair.jobs.progress import Progress


class JobsMixin:
    """All of them ask ``jobs``, which connects to where jobs are kept when it has to."""

    jobs: Jobs

    def submit_job(
        self,
        task: Any,
        items: Iterable[Any] | os.PathLike[str],
        *,
        id: str | None = None,
        total: int | None = None,
        chunk_items: int | None = None,
        chunk_seconds: float = CHUNK_SECONDS,
        backlog: int = BACKLOG,
        ahead: int = AHEAD,
        results: bool = False,
        max_failures: float | None = None,
        on_progress: Any = None,
        progress_seconds: float = 10.0,
        on_finish: Any = None,
        on_failures: Any = None,
        keep_seconds: float = KEEP_SECONDS,
        **options: Any,
    ) -> Job:
        """Run a `job_task` over many items, in chunks that give way; `docs/jobs.md` has it all.

        Returns at once. A list of up to ``ahead`` items is kept by then; all else (generators,
        paths, text files, whose items are their lines) a thread goes over, ``ahead`` items in front
        of what is done: `Job.wait_submitted`. The same ``id`` again goes on with a job whose
        submitting was cut off, and skips what is there. ``options`` are those of ``apply_async``
        that can be said of each chunk. Raises `BadOption`, `JobConflict`, `QueueFull`, `StateAway`,
        and `SettingsError` where there is no Redis to keep it in.
        """
        return self.jobs.submit(
            task,
            items,
            id=id,
            results=results,
            numbers={
                "total": total,
                "chunk_items": chunk_items,
                "chunk_seconds": chunk_seconds,
                "backlog": backlog,
                "ahead": ahead,
                "max_failures": max_failures,
                "progress_seconds": progress_seconds,
                "keep_seconds": keep_seconds,
            },
            callbacks={"progress": on_progress, "finish": on_finish, "failures": on_failures},
            options=options,
        )

    def job(self, id: str) -> Job:
        """Return the handle of a job; asks nothing, so that of none raises `JobNotFound` later."""
        return self.jobs.job(id)

    def list_jobs(self, start: int = 0, count: int = 50) -> Sequence[Progress]:
        """Return how far the jobs are that are kept, the newest first."""
        return self.jobs.list(start, count)
