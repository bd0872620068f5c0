"""What can go wrong, each error with its cure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or nothing when no known name is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


class FairWarning(UserWarning):
    """Something celery-fair was told and can't use, though it can go on without it."""


class FairError(Exception):
    """Parent of every error that celery-fair raises."""


class SettingsError(FairError, ValueError):
    """The settings can't be used: correct each setting that is named."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(("celery-fair can't use its settings:", *self.problems)))


class UnknownKind(FairError, ValueError):  # noqa: N818 - named for what happened, as QueueFull is
    """A kind is 'interactive' or 'batch': use one of the two."""

    def __init__(self, kind: object, known: Sequence[str], where: str = "kind=") -> None:
        self.kind = kind
        self.known = tuple(known)
        self.where = where
        hint = did_you_mean(kind, known) if isinstance(kind, str) else ""
        expected = " or ".join(repr(name) for name in known)
        super().__init__(f"{where}: expected {expected}, got {kind!r}{hint}")


class BadOption(FairError, ValueError):  # noqa: N818
    """An option of a call or of a task can't be used: give it a value of those that are named."""

    def __init__(self, where: str, expected: str, got: object) -> None:
        self.where = where
        self.expected = expected
        self.got = got
        super().__init__(f"{where}: expected {expected}, got {got!r}")


class QueueTimeout(FairError):  # noqa: N818
    """The task was not run: it had waited in its queue for longer than it was allowed to.

    Seconds, by the publisher's and the worker's clocks. The three are also the exception's
    ``args``, of which every result serializer makes it anew.
    """

    def __init__(self, kind: str, waited_seconds: float, timeout_seconds: float) -> None:
        self.kind = kind
        self.waited_seconds = waited_seconds
        self.timeout_seconds = timeout_seconds
        super().__init__(kind, waited_seconds, timeout_seconds)

    def __str__(self) -> str:
        return (
            f"not run: this {self.kind} task had waited {self.waited_seconds:.3g} s, longer than "
            f"its timeout of {self.timeout_seconds:g} s; add workers, publish less, or allow a "
            f"longer wait by {self.kind}_timeout_seconds or timeout_seconds="
        )


class TaskRefused(FairError):  # noqa: N818
    """The task was not run: the hook before batch tasks has refused it, for the reason it gives.

    The reason is also the exception's only argument, of which every result serializer makes it
    anew.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"not run: before_batch has refused this task: {self.reason}"


class QueueFull(FairError):  # noqa: N818
    """Nothing was published: as much as is allowed waits already. Try again later, or add workers.

    ``backlog`` is in tasks. ``limit`` is in tasks too, or in seconds where ``wait_seconds``, the
    estimated wait, is what was too long. The five are also the exception's ``args``, of which
    pickle and every result serializer make it anew.
    """

    def __init__(
        self,
        kind: str,
        backlog: int,
        limit: float,
        retry_after_seconds: float,
        wait_seconds: float | None = None,
    ) -> None:
        self.kind = kind
        self.backlog = backlog
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds
        self.wait_seconds = wait_seconds
        super().__init__(kind, backlog, limit, retry_after_seconds, wait_seconds)

    @property
    def limited_by(self) -> str:
        """Which limit it was: ``"backlog"`` or ``"wait"``."""
        return "backlog" if self.wait_seconds is None else "wait"

    def __str__(self) -> str:
        if self.wait_seconds is None:
            what = f"{self.backlog} {self.kind} tasks wait, and {self.limit:g} may"
            setting = f"{self.kind}_max_backlog"
        else:
            what = (
                f"{self.kind} tasks would wait about {self.wait_seconds:.3g} s, and may wait "
                f"{self.limit:g} s"
            )
            setting = f"{self.kind}_max_wait_seconds"
        return (
            f"not published: {what}; try again in {self.retry_after_seconds:.0f} s, add workers, "
            f"or raise {setting}"
        )


class RateLimited(FairError):  # noqa: N818
    """A resource has refused this task (HTTP 429): raise it, and the task runs again later.

    All workers then use less of ``resource``, or of all that the task uses, and batch nothing of it
    for a while. The delay of the retry is ``retry_after`` seconds, else it grows with each. After
    the task's ``max_retries`` it fails with this error.
    """

    def __init__(self, retry_after: float | None = None, resource: str | None = None) -> None:
        self.retry_after = retry_after
        self.resource = resource
        super().__init__(retry_after, resource)

    def __str__(self) -> str:
        what = "what the task uses" if self.resource is None else self.resource
        when = "" if self.retry_after is None else f" for {self.retry_after} s"
        return f"refused by {what}{when}: allow more retries (max_retries), or lower its limits"


class NotInstalled(FairError, RuntimeError):  # noqa: N818
    """No Fair is installed in the Celery app: call Fair(app) where the app is made."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}, and no Fair is installed there; call Fair(app) where the app is made"
        )


class AlreadyInstalled(FairError, RuntimeError):  # noqa: N818
    """An app has one Fair and a Fair has one app: use Fair.of(app), or uninstall() first."""

    def __init__(self, app: object) -> None:
        self.app = app
        super().__init__(
            f"{app!r} can't get this Fair: an app has one Fair and a Fair has one app; reach the "
            f"installed one with Fair.of(app), or call its uninstall() first"
        )


class StateAway(FairError):  # noqa: N818
    """The state's Redis can't be asked now: do what is right without it, or ask later."""

    def __str__(self) -> str:
        return (
            "the state's Redis can't be asked now: is it running, and does this machine use the "
            "workers' state_url (or else their broker_url)?"
        )


class JobNotFound(FairError, LookupError):  # noqa: N818
    """There is no job of that id, or it was kept for long enough already."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(id)

    def __str__(self) -> str:
        return f"there is no job {self.id!r}: expected the id of one that is still kept"


class JobConflict(FairError, ValueError):  # noqa: N818
    """What is submitted contradicts the job that has this id already."""


class BadState(FairError, ValueError):  # noqa: N818
    """What a task saves as it yields must be JSON, and short: save a position, not the work."""

    def __init__(self, what: str, got: str) -> None:
        self.what = what
        self.got = got
        super().__init__(what, got)

    def __str__(self) -> str:
        return (
            f"{self.what}: expected JSON of at most 32768 bytes, got {self.got}; save where the "
            f"work is (a number, a key), and keep the work itself in a database or a file"
        )
