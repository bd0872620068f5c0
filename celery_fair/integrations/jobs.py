"""Jobs over HTTP, by one set of rules for all frameworks: ``POST /jobs``, ``GET /jobs/<id>``.

Whoever reaches these addresses may submit work and see it: who that is, the application decides,
by its own login around them. What may be submitted is a list that it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from kombu.exceptions import OperationalError

from celery_fair import (
    BadOption,
    Fair,
    JobConflict,
    JobNotFound,
    Progress,
    QueueFull,
    SettingsError,
    StateAway,
)
from celery_fair.integrations.answering import JsonAnswer, json_answer
from celery_fair.integrations.full import DEFAULT_STATUS, refusal
from celery_fair.integrations.jobs_options import (
    wrong_actions,
    wrong_numbers,
    wrong_options,
    wrong_tasks,
)
from celery_fair.integrations.jobs_words import (
    Submission,
    Wrong,
    failed,
    page,
    read_json,
    submission,
)
from celery_fair.integrations.rules import Get, wrong_status

MAX_ITEMS: Final = 10_000
MAX_BYTES: Final = 1_000_000
PAGE, LARGEST_PAGE = 50, 200
FURTHEST: Final = 1_000_000
AGAIN_SECONDS: Final = 5
AWAY: Final = (StateAway, OperationalError)
OTHER_JOB: Final = "another job has this id, of another task or of other items"
NOT_NOW: Final = f"jobs can't be reached now; try again in {AGAIN_SECONDS} s"


class Asked(NamedTuple):
    """A request, as any framework can tell it."""

    method: str
    path: str
    """Below where the jobs are mounted."""
    url: str
    """The same with its mount, as the client sees it."""
    query: Mapping[str, str]
    header: Get
    read: Callable[[int], bytes]
    """Reads so many bytes of the body at most."""


class JobsApi:
    """Answers requests about jobs; raises `SettingsError` for options that can't be used.

    ``tasks`` are the job tasks, or their names, of which jobs may be submitted and seen; no pattern
    names one, and others are as if they weren't there. ``actions`` are those of "pause", "resume",
    "cancel" and "retry" that may be asked for; by default none. A body is at most ``max_bytes``
    long and has at most ``max_items``; it is held in memory. ``options`` are more keywords of
    `Fair.submit_job`, for each job. ``full_status`` is the status where `QueueFull` is raised: 429
    or 503.
    """

    def __init__(
        self,
        fair: Fair,
        *,
        tasks: Collection[Any],
        actions: Collection[str] = (),
        max_items: int = MAX_ITEMS,
        max_bytes: int = MAX_BYTES,
        options: Mapping[str, Any] | None = None,
        full_status: int = DEFAULT_STATUS,
    ) -> None:
        numbers = {"max_items": max_items, "max_bytes": max_bytes}
        problems = [*wrong_tasks(tasks), *wrong_actions(actions), *wrong_numbers(numbers)]
        options = {} if options is None else options
        if problems := [*problems, *wrong_options(options), *wrong_status(full_status)]:
            raise SettingsError(problems)
        self._fair = fair
        self._tasks = frozenset(getattr(task, "name", task) for task in tasks)
        self._actions = frozenset(actions)
        self._max_items, self.max_bytes = max_items, max_bytes
        self._options = dict(options)
        self._full_status = full_status

    def answer(self, asked: Asked) -> JsonAnswer:
        """Return the response; asks the state's Redis, and for a new job the broker."""
        try:
            return self._answered(asked)
        except Wrong as error:
            return error.answer
        except QueueFull as error:
            return refusal(error, self._full_status)
        except AWAY:
            return failed(503, f"{NOT_NOW}.", Retry_After=str(AGAIN_SECONDS))
        except JobNotFound:
            return failed(404, "there is no such job")
        except JobConflict:  # whose words are of the other job
            return failed(409, OTHER_JOB)
        except BadOption as error:
            return failed(400, str(error))

    def _answered(self, asked: Asked) -> JsonAnswer:
        does = self._routes([part for part in asked.path.split("/") if part])
        method = "GET" if asked.method == "HEAD" else asked.method
        if method not in does:
            raise Wrong(405, f"expected {' or '.join(sorted(does))}", Allow=", ".join(does))
        return does[method](asked)

    def _routes(self, parts: list[str]) -> Mapping[str, Callable[[Asked], JsonAnswer]]:
        if not parts:
            return {"GET": self._list, "POST": self._submit}
        if len(parts) == 1:
            return {"GET": lambda asked: self._show(parts[0])}
        if len(parts) == 2 and parts[1] in self._actions:
            return {"POST": lambda asked: self._act(asked, *parts)}
        raise Wrong(404, "there is nothing at this address")

    def _list(self, asked: Asked) -> JsonAnswer:
        start = page(asked.query.get("start"), "start", 0, FURTHEST)
        count = max(page(asked.query.get("count"), "count", PAGE, LARGEST_PAGE), 1)
        found = self._fair.list_jobs(start, count + 1)
        jobs = [_shown(job) for job in found[:count] if job.task in self._tasks]
        more = start + count if len(found) > count else None
        return json_answer(200, {"jobs": jobs, "next_start": more})

    def _submit(self, asked: Asked) -> JsonAnswer:
        key = asked.header("Idempotency-Key")
        wanted = submission(self._read(asked), key, self._tasks, self._max_items)
        id = str(uuid4()) if wanted.id is None else wanted.id
        try:
            self._refuse_more(wanted)
            shown = self._submitted(wanted._replace(id=id))
        except AWAY:  # a part of it may be there: whoever repeats it goes on, and begins no other
            detail = f"{NOT_NOW}, with this id."
            return failed(503, detail, id=id, Retry_After=str(AGAIN_SECONDS))
        where = f"{asked.url.rstrip('/')}/{quote(id, safe='')}"
        return json_answer(202, shown, Location=where)

    def _refuse_more(self, wanted: Submission) -> None:
        """Of a job that something else submits still, a client is to add no items."""
        if wanted.id is None:
            return
        with suppress(JobNotFound):
            if self._fair.job(wanted.id).progress().total != len(wanted.items):
                raise Wrong(409, OTHER_JOB)

    def _submitted(self, wanted: Submission) -> dict[str, Any]:
        job = self._fair.submit_job(
            wanted.task,
            wanted.items,
            id=wanted.id,
            # All of it is stored at once: no thread of a web process has to go on with it.
            ahead=max(len(wanted.items), 1),
            **{**self._options, **wanted.options},
        )
        return _shown(job.progress())

    def _read(self, asked: Asked) -> Any:
        body = asked.read(self.max_bytes + 1)
        if len(body) > self.max_bytes:
            raise Wrong(413, f"expected a body of {self.max_bytes} bytes at most")
        return read_json(asked.header("Content-Type"), body)

    def _show(self, id: str) -> JsonAnswer:
        return json_answer(200, _shown(self._progress(id)))

    def _act(self, asked: Asked, id: str, action: str) -> JsonAnswer:
        self._read(asked)  # that it is JSON, no form on another site can say
        self._progress(id)
        job = self._fair.job(id)
        done: object = {
            "pause": lambda: job.pause("over HTTP"),
            "resume": job.resume,
            "cancel": lambda: job.cancel("over HTTP"),
            "retry": job.retry_failed,
        }[action]()
        after = job.progress()
        if done is False:
            return failed(409, f"the job has ended ({after.state})")
        return json_answer(200, _shown(after))

    def _progress(self, id: str) -> Progress:
        """How far a job is, of a task that may be seen."""
        progress = self._fair.job(id).progress()
        if progress.task not in self._tasks:
            raise JobNotFound(id)
        return progress


def _shown(job: Progress) -> dict[str, Any]:
    """Without the reason, which may have an error's words or an operator's name."""
    said = job.as_dict()
    del said["reason"]
    return said
