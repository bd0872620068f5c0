"""A request that is sent again runs once: whoever sends it gets the first one's result.

`docs/identity.md` explains it. Here is the publisher's part; the worker's, which decides between
two copies of one task, is `celery_fair.worker.copies`.
"""

from __future__ import annotations

import contextlib
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery.utils import uuid

from celery_fair.headers import MAX_TEXT
from celery_fair.identity import scripts
from celery_fair.identity.digest import digest_of
from celery_fair.moments import epoch_of, seconds_of
from celery_fair.options import known_keeping
from celery_fair.state import State, StateAway, text_of

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.publish import Publish

ELSEWHERE: Final = (
    "task_id", "group_id", "group_index", "chord", "chain", "link", "link_error", "retries",
    "reply_to", "root_id", "parent_id", "replaced_task_nesting", "eta", "countdown",
)  # fmt: skip
"""Options of a call that is more than one plain task, run as soon as it can be.

Another waits for the result under an id that it has chosen, or the first one's callbacks would be
called for the second too; and a copy can't move to the front what may not run yet.
"""


class Claim:
    """One publish of a request: the first one, another copy of it, or none at all.

    Entered around the sending of its message, it gives the request back if that fails.
    """

    def __init__(self, identity: Identity, digest: str, id: str, word: str) -> None:
        self._identity = identity
        self._digest = digest
        self.id = id
        self.is_first = word == "first"
        self.is_sent = self.is_first or word == "twin"

    def handle(self, app: Any, options: dict[str, Any]) -> Any:
        """Return what ``send_task`` would have returned for the first one."""
        result = (options.get("result_cls") or app.AsyncResult)(self.id)
        result.ignored = options.get("ignore_result")
        return result

    def __enter__(self) -> None:
        """Send."""

    def __exit__(
        self,
        error: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """A message that was not sent keeps nobody from sending the request again."""
        if error is not None and self.is_first:
            self._identity.release(self._digest, self.id)


class Identity:
    """Finds out, before a publish, whether its request was sent before."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._state: State | None = None
        self.deduplicated = 0
        """Publishes that were answered by an earlier one, sent as a copy of it or not."""
        self.unasked = 0
        """Publishes that went out as any other since the state could not be asked."""

    @property
    def state(self) -> State:
        """Where requests are noted; raises `SettingsError` where there is no Redis for it."""
        if self._state is None:
            self._state = State.of(self._fair)
        return self._state

    def close(self) -> None:
        """Let go of the state's connection."""
        if self._state is not None:
            self._state.close()

    def claim(self, name: str, publish: Publish) -> Claim | None:
        """Return the claim of a publish, and mark its message; None for one like any other."""
        keep_seconds = self._keep_seconds(name, publish)
        if not keep_seconds or not _is_plain(publish):
            return None
        digest = digest_of(name, publish)
        if digest is None:
            return None
        expiry = _expiry(name, publish)
        if expiry is not None and expiry <= 0:
            return None
        found = self._ask(digest, publish, keep_seconds, expiry)
        if found is None:
            self.unasked += 1
            return None
        claim = Claim(self, digest, found.id, found.word)
        self.deduplicated += not claim.is_first
        if claim.is_sent:
            _mark(publish, claim, found.at)
        return claim

    def release(self, digest: str, id: str) -> None:
        """Give a request back; if that fails too, the next to send it sends a copy."""
        with contextlib.suppress(StateAway):
            self.state.call(scripts.release(digest, id))

    def _ask(
        self, digest: str, publish: Publish, keep_seconds: float, expiry: float | None
    ) -> _Found | None:
        call = scripts.claim(
            digest,
            uuid(),
            keep_seconds=keep_seconds,
            wait_seconds=scripts.WAIT_SECONDS if expiry is None else expiry,
            alone=expiry is not None,
            at=publish.header.first_published,
        )
        try:
            id, word, at = (text_of(part) for part in self.state.call(call))
        except StateAway:
            return None
        return _Found(id, word, float(at))

    def _keep_seconds(self, name: str, publish: Publish) -> float:
        """How long the result of a request answers it, in seconds; 0 for a task of no such kind."""
        task = publish.task if publish.task is not None else self._fair.registered(name)
        own = getattr(task, "fair_deduplicate_seconds", None)
        if own is not None:
            own = known_keeping(own, f"fair_deduplicate_seconds of {name}")
        seconds = self._fair.settings.deduplicate_seconds if own is None else own
        kept = self._fair.app.backend.expires if seconds else None
        # A handle to a result that its backend has dropped would wait for ever.
        return min(seconds or 0.0, kept) if kept else seconds or 0.0


class _Found(NamedTuple):
    id: str
    word: str
    at: float


def is_asked(publish: Publish) -> bool:
    """Whether a publish may be a request at all: the one look at each publish of an app."""
    return publish.header.request_id is not None and publish.parent is None


def _is_plain(publish: Publish) -> bool:
    if any(publish.options.get(option) for option in ELSEWHERE):
        return False
    header = publish.header
    # Longer ones are cut there, and two requests could become one.
    return all(len(said or "") < MAX_TEXT for said in (header.request_id, header.tenant))


def _mark(publish: Publish, claim: Claim, first_published: float) -> None:
    options = publish.options
    options["task_id"] = claim.id
    publish.header = publish.header._replace(once=secrets.token_hex(8))
    if not claim.is_first:
        # In front of what came after the first; and whatever happens to a copy happens to the task,
        # which must not be told to have expired while it runs.
        publish.header = publish.header._replace(first_published=first_published)
        publish.to_front = True
        options["expires"] = None


def _expiry(name: str, publish: Publish) -> float | None:
    """In how many seconds the message expires; None for never, and for what Celery will refuse."""
    options = publish.options
    task = publish.task if publish.task is not None else publish.fair.registered(name)
    expires = options["expires"] if "expires" in options else getattr(task, "expires", None)
    if expires is None:
        return None
    seconds = seconds_of(expires)
    if seconds is not None:
        return seconds
    at = epoch_of(expires, publish.fair.app)
    return None if at is None else at - publish.now
