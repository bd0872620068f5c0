"""Jobs in the app's state Redis: each question is one script, and one round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kombu.utils.json import loads
from kombu.utils.uuid import uuid

from celery_fair.errors import JobNotFound
from celery_fair.jobs import conflicts, keeping, scripts
from celery_fair.jobs.items import readable
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import Failure, Progress
from celery_fair.jobs.reading import as_fields, counted_of, dues_of, plan_of, ranges_of
from celery_fair.jobs.store import Appended, Claim, Due, Nothing, Overdue, Report, Reported
from celery_fair.state import Call, Script, State, text_of

if TYPE_CHECKING:
    from celery_fair.app import Fair

PATIENCE_SECONDS: Final = 5.0
"""A chunk that has worked for a second waits longer for its report than a web request waits."""

PART_ITEMS: Final = 500
"""Items of one script, so that none keeps Redis from others for long."""

PART_BYTES: Final = 1_000_000

_NO_JOB: Final = (b"NOJOB", "NOJOB")


class RedisStore:
    """A `JobStore` for all processes that reach one Redis.

    ``now`` is for tests: the store's clock is Redis's own. What follows work that was done insists:
    it is asked even while the state is taken to be away.
    """

    def __init__(
        self,
        state: State,
        *,
        now: Callable[[], float] | None = None,
        make_id: Callable[[], str] = uuid,
    ) -> None:
        self._state = state
        self._now = now
        self._make_id = make_id

    @classmethod
    def of(cls, fair: Fair) -> RedisStore:
        """The store of an app; raises `SettingsError` where there is no Redis for it."""
        return cls(
            State.of(
                fair,
                asks="jobs",
                without="no job goes on, and none can be submitted",
                patience_seconds=PATIENCE_SECONDS,
            )
        )

    def disconnect(self) -> None:
        """Let go of the connection; the next call makes another."""
        self._state.close()

    def _ask(self, script: Script, job: str, *args: Any, insist: bool = False) -> Any:
        now = "" if self._now is None else str(round(self._now() * 1000))
        call = Call(script, [], (now, keeping.sendable(job), *args))
        found = self._state.call(call, insist=insist)
        if found in _NO_JOB:
            raise JobNotFound(job)
        return found

    # -- producers -------------------------------------------------------------------------------

    def create(self, plan: Plan) -> bool:
        task = self._ask(scripts.CREATE, plan.id, *as_fields(plan))
        if task is None:
            return True
        if text_of(task) != plan.task:
            raise conflicts.other_task(plan.id, text_of(task), plan.task)
        return False

    def append(self, job: str, first: int, items: Sequence[str]) -> Appended:
        at = 0
        while True:
            part = list(_part(items, at))
            found = self._ask(scripts.APPEND, job, first + at, *part)
            submitted, room, word = found[0], found[1], text_of(found[2])
            appended = Appended(submitted, room, word == "stop")
            if word == "more":
                raise conflicts.too_many_items(job, appended.submitted)
            # Those that are there already, from a producer before this one, needn't be sent.
            at = max(at + len(part), submitted - first)
            if at >= len(items) or submitted != first + at or appended.stop:
                return appended

    def close(self, job: str, total: int) -> Sequence[Due]:
        word, submitted, *calls = self._ask(scripts.CLOSE, job, total)
        if word:
            raise conflicts.other_total(job, int(submitted), total)
        return dues_of(calls)

    def grant(self, job: str, tickets: Sequence[str]) -> Sequence[str]:
        return [text_of(ticket) for ticket in self._ask(scripts.GRANT, job, *tickets)]

    # -- workers ---------------------------------------------------------------------------------

    def claim(
        self, job: str, ticket: str, lease_seconds: float, *, token: str | None = None
    ) -> Claim | Nothing:
        token = token or self._make_id()
        args = keeping.sendable(ticket), token, _ms(lease_seconds)
        found = self._ask(scripts.CLAIM, job, *args, insist=True)
        if len(found) == 1:
            return Nothing(text_of(found[0]))  # type: ignore[arg-type]
        _, ranges, losses, item_seconds, plan, items = found
        return Claim(
            job,
            ticket,
            token,
            ranges_of(ranges),
            [text_of(item) for item in items],
            losses,
            float(item_seconds) if item_seconds else None,
            plan_of(plan),
        )

    def renew(self, claim: Claim, lease_seconds: float) -> bool:
        args = claim.ticket, claim.token, _ms(lease_seconds)
        return bool(self._ask(scripts.RENEW, claim.job, *args, insist=True))

    def report(
        self,
        claim: Claim,
        report: Report,
        *,
        size: int,
        ends: bool,
        next_ticket: str | None = None,
        yielded: bool = False,
    ) -> Reported:
        args: list[Any] = [claim.ticket, claim.token, report.after, report.count]
        args += [repr(report.seconds / report.count) if report.count else "0", size]
        args += [int(ends), next_ticket or "", int(yielded), len(report.failed)]
        for one in report.failed:
            args += [one.index, keeping.kept(one.error, keeping.MAX_NAME)]
            args.append(keeping.kept(one.message, keeping.MAX_TEXT))
        for index, result in report.results.items():
            args += [index, result]
        found = self._ask(scripts.REPORT, claim.job, *args, insist=True)
        counted, follows, stop, *calls = found
        return Reported(bool(counted), text_of(follows) or None, bool(stop), tuple(dues_of(calls)))

    def overdue(self, tasks: Sequence[str], limit: int = 100) -> Sequence[Overdue]:
        rows = self._ask(scripts.OVERDUE, "", limit, self._make_id(), *tasks)
        return [
            Overdue(text_of(job), [text_of(ticket) for ticket in tickets], dues_of(calls))
            for job, _, tickets, calls in rows
        ]

    def called(self, job: str, due: Due) -> None:
        self._ask(scripts.CALLED, job, due.call, due.number, insist=True)

    # -- operators -------------------------------------------------------------------------------

    def pause(self, job: str, reason: str) -> bool:
        return bool(self._ask(scripts.PAUSE, job, keeping.kept(reason, keeping.MAX_TEXT)))

    def resume(self, job: str) -> bool:
        return bool(self._ask(scripts.RESUME, job))

    def cancel(self, job: str, reason: str) -> bool:
        return bool(self._ask(scripts.CANCEL, job, keeping.kept(reason, keeping.MAX_TEXT)))

    def retry_failed(self, job: str) -> int:
        return int(self._ask(scripts.RETRY, job))

    def forget(self, job: str) -> None:
        while state := text_of(self._ask(scripts.FORGET, job)):
            if state != "more":
                raise conflicts.not_ended(job, state)

    # -- whoever asks ----------------------------------------------------------------------------

    def plan(self, job: str) -> Plan:
        found = self._ask(scripts.PLAN, job)
        if found is None:
            raise JobNotFound(job)
        return plan_of(found)

    def progress(self, job: str) -> Progress:
        now, plan, record = self._ask(scripts.PROGRESS, job)
        if plan is None or not record:
            raise JobNotFound(job)
        return counted_of(record).progress(plan_of(plan), int(now) / 1000)

    def list(self, start: int = 0, count: int = 50) -> Sequence[Progress]:
        now, *rows = self._ask(scripts.LIST, "", start, count)
        at = int(now) / 1000
        return [counted_of(record).progress(plan_of(plan), at) for plan, record in rows]

    def failures(self, job: str, start: int = 0, count: int = 100) -> Sequence[Failure]:
        found: list[Failure] = []
        while len(found) < count:
            part = min(count - len(found), PART_ITEMS)
            indices, kept = self._ask(scripts.FAILURES, job, start + len(found), part)
            found += [_failure(index, one) for index, one in zip(indices, kept, strict=True)]
            if len(indices) < part:
                break
        return found

    def results(self, job: str, start: int = 0, count: int = 100) -> Mapping[int, str]:
        found: dict[int, str] = {}
        at, end = start, start + count
        while at < end:
            submitted, *pairs = self._ask(scripts.RESULTS, job, at, min(end - at, PART_ITEMS))
            found.update(zip(map(int, pairs[::2]), map(text_of, pairs[1::2]), strict=True))
            at, end = at + PART_ITEMS, min(end, int(submitted))
        return found


def _part(items: Sequence[str], at: int) -> Iterator[str]:
    """As many items from ``at`` on as one script should take, and one however large it is."""
    size = 0
    for item in items[at : at + PART_ITEMS]:
        size += len(item)
        yield item
        if size >= PART_BYTES:
            return


def _failure(index: bytes, kept: bytes) -> Failure:
    item, error, message, times, at = loads(kept)
    return Failure(int(index), readable(item), error, message, times, at / 1000)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
