"""The message header ``fair``: what a message says about its kind and its age.

One short line of text, as in ``batch 1764457200.123456 {"tenant":"acme"}``: the kind, when it was
first published, and as JSON what else there is to say, which mostly is nothing. py-amqp decodes a
table of the same in 408 bytecodes of Python, and the line in 118 (beside 2,906 for Celery's own
headers; py-amqp 5.4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind

NAME: Final = "fair"

#: Identifiers are cut at this length, so that a publisher can't make every worker carry a novel.
MAX_TEXT: Final = 256

#: Longer than any line written here: JSON takes up to twelve characters for one of an identifier.
MAX_LENGTH: Final = 8192

#: Epoch seconds past the year 5000 are noise, and could overflow sums further on.
MAX_TIME: Final = 1e11


NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
WHITESPACE: Final = " \t\n\r"
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder().encode

#: More than a task can yield in a lifetime.
MAX_COUNT: Final = 1_000_000_000


class FairHeader(NamedTuple):
    """The header of one message; times are epoch float seconds of the publisher's clock."""

    kind: Kind
    #: The first publish of this task, kept by retries and replacements: the order inside a lane.
    first_published: float
    #: When this attempt could first have run (publish or ETA): waits, timeouts and aging.
    ready_at: float
    request_id: str | None = None
    tenant: str | None = None
    #: The kind was given to everything published inside (``with fair.kind(...)``), so it also
    #: beats the declarations of tasks that this one publishes.
    covers_children: bool = False
    #: The kind is that of the task that published this one: traces show it.
    inherited: bool = False
    #: How long this call may wait for a slot, in seconds; None if the call didn't say.
    timeout_seconds: float | None = None
    #: Which copy this is of a message of which one copy runs; retries keep it.
    once: str | None = None
    #: How often this task has yielded; its continuations and their retries count on.
    yields: int = 0
    #: How many tokens it is thought to use; 0 for a call that nobody has estimated.
    tokens: int = 0
    #: How often the hook before batch tasks has sent it to another queue.
    rerouted: int = 0

    @classmethod
    def read(cls, headers: Mapping[str, Any] | None) -> FairHeader | None:
        """Return the header, or None where there is none that can be understood; never raises.

        Anyone who can publish can write anything here, so every field is checked by itself: a bad
        identifier is dropped, a bad time takes the value of the other one, and only an unknown kind
        or two bad times make the header unreadable.
        """
        try:
            line = headers[NAME]  # type: ignore[index]
            if type(line) is not str or len(line) > MAX_LENGTH:
                return None
            kind, first_published, *more = line.split(" ", 2)
            # The constants, not the message's own strings, go on from here.
            known: Kind | None = (
                INTERACTIVE if kind == INTERACTIVE else BATCH if kind == BATCH else None
            )
            get = decoded(more[0]).get if more else NOTHING.get
            first = _time(_number(first_published))
            ready = _time(get("ready_at", first))
            if known is None or (first is None and ready is None):
                return None
            return cls(
                known,
                ready if first is None else first,  # type: ignore[arg-type]
                first if ready is None else ready,  # type: ignore[arg-type]
                text_of(get("request_id")),
                text_of(get("tenant")),
                get("covers_children") is True,
                get("inherited") is True,
                _timeout(get("timeout_seconds")),
                text_of(get("once")),
                _count(get("yields")),
                _count(get("tokens")),
                _count(get("rerouted")),
            )
        except Exception:  # hostile mappings may raise anything; a worker must outlive them
            return None

    def as_line(self) -> str:
        """Return the header as it travels; what says nothing stays at home.

        Put together by hand: ``json.dumps`` makes an encoder for each, and takes twice as long.
        """
        more = ""
        if self.ready_at != self.first_published:
            more += f',"ready_at":{_encode(self.ready_at)}'
        if self.request_id is not None:
            more += f',"request_id":{_encode(self.request_id)}'
        if self.tenant is not None:
            more += f',"tenant":{_encode(self.tenant)}'
        if self.covers_children:
            more += ',"covers_children":true'
        if self.inherited:
            more += ',"inherited":true'
        if self.timeout_seconds is not None:
            more += f',"timeout_seconds":{_encode(self.timeout_seconds)}'
        if self.once is not None:
            more += f',"once":{_encode(self.once)}'
        if self.yields or self.tokens or self.rerouted:
            counts = {"yields": self.yields, "tokens": self.tokens, "rerouted": self.rerouted}
            more += "".join(f',"{name}":{count}' for name, count in counts.items() if count)
        line = f"{self.kind} {self.first_published!r}"
        return f"{line} {{{more[1:]}}}" if more else line


def tenant_of(headers: Mapping[str, Any] | None) -> str | None:
    """Return whose a message is, whatever else its header says; never raises."""
    try:
        line = headers[NAME]  # type: ignore[index]
        if type(line) is str and len(line) <= MAX_LENGTH:
            _, _, more = line.partition(" ")[2].partition(" ")
            return text_of(decoded(more).get("tenant")) if more else None
    except Exception:  # as `FairHeader.read` has it
        pass
    return None


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return None


def decoded(more: str) -> Mapping[str, object]:
    """Return what a header says behind its time; what can't be understood is as good as nothing.

    By the decoder itself: ``json.loads`` takes three times as long to get there and back.
    """
    try:
        more = more.strip(WHITESPACE)
        found, end = _decode(more)
    except (ValueError, RecursionError):
        return NOTHING
    return found if type(found) is dict and end == len(more) else NOTHING


def _time(value: object) -> float | None:
    # `type`, not isinstance: True is an int. NaN fails both comparisons.
    if type(value) is float or type(value) is int:
        return float(value) if 0 <= value < MAX_TIME else None
    return None


def _timeout(value: object) -> float | None:
    seconds = _time(value)
    return seconds if seconds else None  # 0 would have no task run at all


def _count(value: object) -> int:
    return value if type(value) is int and 0 < value < MAX_COUNT else 0


def text_of(value: object) -> str | None:
    """Return an identifier as it is believed: a text, cut where it is too long."""
    return value[:MAX_TEXT] if type(value) is str and value else None
