"""A recorded day: one arrival a line, as JSON, in order of time; gzipped or not.

Each line is an object. ``at`` is seconds, on any clock that only grows: the first line's is the
start of the simulation. ``kind`` is ``"interactive"`` or ``"batch"``. ``seconds`` is how long the
task ran. Optional are ``task`` (its name), ``tenant``, and ``uses`` (a list of resources). Fields
of other names are left alone, so that whoever records may add some; ``waited`` is one, seconds.

    {"at": 1795982400.25, "kind": "interactive", "seconds": 0.052, "task": "shop.answer"}

The first line may be a note on the others, ``{"trace": {…}}``. If it has a ``sample``, the part of
all tasks that was recorded, `read_trace` makes up for those that were not.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from celery_fair.policy.kinds import KINDS, Kind

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 65_536
"""Characters: no file is read into memory whole, whatever it unpacks to."""
LEAST_SAMPLE = 0.0001
"""Each line of a smaller one would stand for more tasks than anybody can tell from it."""
_MOST_SECONDS = 1e12
"""Any clock's, also one that counts since the year 0."""


class TraceError(ValueError):
    """A line of a trace is not what it should be; the message says where, and what was expected."""


class Arrival(NamedTuple):
    """A task that came ``at`` seconds after the first, and ran for ``seconds``."""

    at: float
    kind: Kind
    seconds: float
    task: str = ""
    tenant: str | None = None
    uses: tuple[str, ...] = ()
    waited: float | None = None
    """How long it had waited for its slot when it was recorded."""


def read_note(path: Path) -> Mapping[str, Any]:
    """Return what the first line says of the others; nothing where it is an arrival."""
    for number, line in _lines(path):
        if line.strip():
            return _note(line, f"{path}, line {number}") or {}
    return {}


def sample_of(path: Path) -> float:
    """Return the part of all tasks that was recorded, from `LEAST_SAMPLE` to 1."""
    found = read_note(path).get("sample", 1.0)
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if not is_number or not LEAST_SAMPLE <= found <= 1:
        raise TraceError(
            f"{path}: expected sample to be a part from {LEAST_SAMPLE} to 1, got {found!r:.80}"
        )
    return float(found)


def read_trace(path: Path) -> Iterator[Arrival]:
    """Yield all arrivals of the day, one at a time; raise `TraceError` at the first bad line.

    Of a sample, each stands for several: those that it stands for come at times drawn between the
    one before and itself, and are like it. The same file always gives the same.
    """
    sample, recorded = sample_of(path), read_recorded(path)
    if sample == 1.0:
        yield from recorded
        return
    source, owed, before = random.Random("trace"), 0.0, 0.0
    for found in recorded:
        owed += 1 / sample - 1
        number = int(owed)
        owed -= number
        span = found.at - before
        for at in sorted(before + span * source.random() for _ in range(number)):
            yield found._replace(at=at)
        yield found
        before = found.at


def read_recorded(path: Path) -> Iterator[Arrival]:
    """Yield what the file has, and no more, of a sample too."""
    first: float | None = None
    before, may_be_note = 0.0, True
    for number, line in _lines(path):
        if not line.strip():
            continue
        if may_be_note and _note(line, f"{path}, line {number}") is not None:
            may_be_note = False
            continue
        may_be_note = False
        found = _parsed(line, f"{path}, line {number}")
        first = found.at if first is None else first
        at = found.at - first
        if at < before:
            raise TraceError(
                f"{path}, line {number}: expected at to be in order of time, got "
                f"{found.at:.17g} after {before + first:.17g}; sort the lines by it: "
                f"`fair record --from FOLDER` does, with what workers have recorded"
            )
        before = at
        yield found._replace(at=at)


def began_at(path: Path) -> float | None:
    """When the first arrival was, on the clock of the file; None if there is none."""
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        if line.strip() and _note(line, where) is None:
            return _parsed(line, where).at
    return None


def write_line(arrival: Arrival) -> str:
    """Return the line of an arrival, with its end; what is empty is left out."""
    fields: dict[str, Any] = {
        "at": round(arrival.at, 4), "kind": arrival.kind, "seconds": round(arrival.seconds, 5)
    }  # fmt: skip
    if arrival.task:
        fields["task"] = arrival.task
    if arrival.tenant is not None:
        fields["tenant"] = arrival.tenant
    if arrival.uses:
        fields["uses"] = list(arrival.uses)
    if arrival.waited is not None:
        fields["waited"] = round(arrival.waited, 4)
    return json.dumps(fields, separators=(",", ":")) + "\n"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise TraceError(
                        f"{path}, line {number}: expected at most {LONGEST_LINE} characters, got "
                        f"more, from {line[:60]!r} on; write one JSON object a line"
                    )
                yield number, line
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{path}, after line {number}: expected UTF-8, gzipped or not, got what can't be read: "
            f"{error}"
        ) from error


def _opened(path: Path) -> IO[str]:
    if path.exists() and not path.is_file():
        raise TraceError(f"{path}: expected a file, as it is read several times, got none; copy it")
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    if packed:
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _note(line: str, where: str) -> Mapping[str, Any] | None:
    """Return what a note says; None for a line that is none."""
    try:
        note = json.loads(line)["trace"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not isinstance(note, dict):
        raise TraceError(f"{where}: expected trace to be an object, got {note!r:.80}")
    return note


def _parsed(line: str, where: str) -> Arrival:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: expected a JSON object, got {line.strip()[:60]!r}") from error
    if not isinstance(fields, dict):
        raise TraceError(f"{where}: expected a JSON object, got {line.strip()[:60]!r}")
    if fields.get("kind") not in KINDS:
        raise TraceError(
            f"{where}: expected kind to be {' or '.join(KINDS)}, got {fields.get('kind')!r:.80}"
        )
    return Arrival(
        _number(fields, "at", where),
        fields["kind"],
        _number(fields, "seconds", where),
        _text(fields, "task", where) or "",
        _text(fields, "tenant", where),
        _names(fields, where),
        None if fields.get("waited") is None else _number(fields, "waited", where),
    )


def _number(fields: dict[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TraceError(f"{where}: expected {name} to be a number of seconds, got {value!r:.80}")
    if not 0 <= value < _MOST_SECONDS:  # nan is not, either
        raise TraceError(
            f"{where}: expected {name} to be 0 or more, and below {_MOST_SECONDS:g}, got "
            f"{value!r:.80}"
        )
    return float(value)


def _text(fields: dict[str, Any], name: str, where: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise TraceError(f"{where}: expected {name} to be a string, got {value!r:.80}")
    return value


def _names(fields: dict[str, Any], where: str) -> tuple[str, ...]:
    value = fields.get("uses", [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TraceError(f"{where}: expected uses to be a list of names, got {value!r:.80}")
    return tuple(value)
