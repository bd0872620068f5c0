"""What a test sees of its worker, and what a failure says: where the time went."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from celery.result import AsyncResult

from celery_fair.policy.kinds import KINDS
from celery_fair.testing.journal import Journal, Story

ASK_SECONDS: Final = 5.0
WIDTH: Final = 80


@dataclass
class Watch:
    """A worker with what it has told; ``ended`` says how it has come to an end, if it has."""

    app: Any
    concurrency: int
    setup: str
    journal: Journal = field(default_factory=Journal)
    ended: Callable[[], str] = str

    def story(self, id: str) -> Story | None:
        """What is known of a task."""
        return self.journal.stories.get(id)

    def situation(self) -> str:
        """The worker, and how many of each kind have run, run and wait."""
        return "\n".join(
            line for line in (self.ended(), f"the worker: {self.setup}", *self._kinds()) if line
        )

    def _kinds(self) -> list[str]:
        runs = list(self.journal.runs)
        found = []
        for kind in KINDS:
            own = [run for run in runs if run.kind == kind]
            running = sum(run.ended_at is None for run in own)
            waiting = max(self.journal.waiting[kind], 0)
            found.append(f"{kind}: {len(own) - running} ran, {running} run, {waiting} wait")
        return found

    def explanation(self, id: str) -> str:
        """What ``celery fair explain ID`` prints; or why nothing could be asked."""
        from rich.console import Console

        from celery_fair.cli.asking import Asking
        from celery_fair.cli.explain_many_text import show_kind
        from celery_fair.cli.explain_text import show_task
        from celery_fair.cli.explained_kind import explain_kind

        text = io.StringIO()
        console = Console(file=text, width=WIDTH, force_terminal=False, highlight=False)
        asking, story = Asking(self.app, ASK_SECONDS, limit=1), self.story(id)
        try:
            found, now = asking.task(id), time.time()
            if found.is_found or story is None:
                show_task(console, found, now)
            else:  # at a broker that shows no message: why do its like wait?
                show_kind(console, explain_kind(story.kind, asking.workers(), now), now)
        except Exception as error:  # the test fails for another reason, which is to be seen
            text.write(f"(it could not be asked: {error})\n")
        lines = "".join(f"  {line}\n" for line in text.getvalue().splitlines())
        return f"where the time went, as `celery fair explain` has it:\n{lines}"


def failure_of(result: AsyncResult) -> str:
    """The exception of a task, where there is a result backend that has it."""
    try:
        error, traceback = result.result, result.traceback
    except Exception:  # there is none, or it is away
        return ""
    if not isinstance(error, BaseException):
        return ""
    return f": {type(error).__name__}: {error}\n{traceback or ''}"
