"""Makes one trace, in order of time, of what workers have written in whatever order."""

from __future__ import annotations

import gzip
import heapq
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeGuard

from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.record.folder import ENDING, read_batches
from celery_fair.sim.histogram import Histogram
from celery_fair.sim.trace import LEAST_SAMPLE, LONGEST_LINE

Tenants = Literal["numbered", "as-they-are", "none"]
SORTED_AT_ONCE: Final = 100_000
LEFT_OUT: Final = ("id", "part", "first")
Line = dict[str, Any]


@dataclass(slots=True)
class Summary:
    """What was recorded, all in all; ``since`` and ``until`` are epoch seconds."""

    sample: float = 1.0
    since: float = float("inf")
    until: float = float("-inf")
    workers: set[str] = field(default_factory=set)
    lost: int = 0
    unreadable: int = 0
    waiting_at_start: int = 0
    joined: int = 0
    tasks: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    seconds: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    waits: dict[Kind, Histogram] = field(
        default_factory=lambda: {kind: Histogram() for kind in KINDS}
    )

    def note(self) -> Mapping[str, Any]:
        """For the first line of the trace."""
        return {
            "sample": self.sample,
            "since": round(self.since, 3),
            "until": round(self.until, 3),
            "workers": len(self.workers),
            "lost": self.lost,
            "waiting_at_start": self.waiting_at_start,
        }

    def add(self, line: Line) -> None:
        kind = line["kind"]
        self.tasks[kind] += 1
        self.seconds[kind] += line["seconds"]
        self.waits[kind].add(line["waited"])


def files_of(places: Iterable[Path]) -> list[Path]:
    """The files of workers in these folders, and files that are named themselves."""
    found: list[Path] = []
    for place in places:
        found += sorted(place.glob("*" + ENDING)) if place.is_dir() else [place]
    return found


def merge(files: Iterable[Path], target: Path, tenants: Tenants = "numbered") -> Summary:
    """Write a trace, whole or not at all; raises OSError. It needs room for it twice."""
    files, summary = list(files), Summary()
    parts: dict[tuple[Any, ...], Line] = {}
    lost: dict[str, int] = {}
    for note, lines in _batches(files, summary):
        summary.sample = min(summary.sample, note["sample"])
        summary.since = min(summary.since, note["since"])
        summary.until = max(summary.until, note["until"])
        summary.workers.add(str(note["worker"]))
        lost[note["batch"].rpartition(" ")[0]] = int(note.get("lost", 0))
        for line in lines:
            if "first" in line:
                _join(parts, line)
    summary.lost = sum(lost.values())
    summary.joined = len(parts)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=target.absolute().parent))
        chunks = _sorted_chunks(_all(files, parts, summary), Path(folder))
        opened = [stack.enter_context(chunk.open(encoding="utf-8")) for chunk in chunks]
        whole = Path(folder) / "trace"
        _write(whole, target.suffix == ".gz", summary, heapq.merge(*opened), _whose(tenants))
        os.replace(whole, target)
    return summary


def _all(files: list[Path], parts: Mapping[Any, Line], summary: Summary) -> Iterator[Line]:
    below = round(summary.sample * 2**32)
    for _, lines in _batches(files, Summary()):
        for line in lines:
            if "first" not in line and line["id"] < below:
                yield _from_start(line, summary)
    for line in parts.values():
        if line["id"] < below:
            yield _from_start(line, summary)


def _from_start(line: Line, summary: Summary) -> Line:
    """What waited as recording began comes then: what ran before is not here to hold it up."""
    early = summary.since - line["at"]
    if early > 0:
        summary.waiting_at_start += 1
        line["at"] = summary.since
        line["waited"] = round(max(line["waited"] - early, 0.0), 4)
    return line


def _join(parts: dict[tuple[Any, ...], Line], line: Line) -> None:
    """The parts of a task that yielded are one task, which came with its first part."""
    key = line["id"], line["task"], line["first"], line.get("attempt", 0)
    known = parts.setdefault(key, line)
    if known is line:
        known["yielded"] = 0
        return
    seconds, yielded = known["seconds"] + line["seconds"], known["yielded"] + 1
    if line["part"] < known["part"]:
        parts[key] = known = line
    elif "outcome" not in line:
        known.pop("outcome", None)
    known["seconds"], known["yielded"] = round(seconds, 5), yielded


def _batches(files: list[Path], summary: Summary) -> Iterator[tuple[Line, list[Line]]]:
    """Each batch once, though a worker that heard no answer has written it again."""
    seen: set[str] = set()
    for file in files:
        for batch in read_batches(file):
            text = io.StringIO(batch.decode(errors="replace"))
            note = _object(text.readline(LONGEST_LINE)).get("trace")
            if not _is_note(note):
                summary.unreadable += 1
                continue
            if note["batch"] in seen:
                continue
            seen.add(note["batch"])
            lines = [_object(line) for line in text]
            good = [line for line in lines if _is_line(line)]
            summary.unreadable += len(lines) - len(good)
            yield note, good


def _object(line: str) -> Line:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_note(note: Any) -> TypeGuard[Line]:
    return (
        isinstance(note, dict)
        and isinstance(note.get("batch"), str)
        and "worker" in note
        and all(_is_number(note.get(name)) for name in ("sample", "since", "until"))
        and LEAST_SAMPLE <= note["sample"] <= 1
    )


def _is_line(line: Line) -> bool:
    return (
        line.get("kind") in KINDS
        and isinstance(line.get("task"), str)
        and isinstance(line.get("id"), int)
        and all(_is_number(line.get(name)) for name in ("at", "seconds", "waited"))
        and ("first" not in line or (_is_number(line["first"]) and _is_number(line.get("part"))))
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12


def _sorted_chunks(lines: Iterator[Line], folder: Path) -> list[Path]:
    """Files of lines that begin with their time, each in order."""
    chunks: list[Path] = []
    some: list[str] = []
    for line in lines:
        some.append(f"{line['at']:020.4f} {json.dumps(line, separators=(',', ':'))}\n")
        if len(some) == SORTED_AT_ONCE:
            chunks.append(_chunk(some, folder, len(chunks)))
    if some:
        chunks.append(_chunk(some, folder, len(chunks)))
    return chunks


def _chunk(some: list[str], folder: Path, number: int) -> Path:
    path = folder / f"{number:06d}"
    path.write_text("".join(sorted(some)), encoding="utf-8")
    some.clear()
    return path


def _write(
    path: Path, packed: bool, summary: Summary, lines: Iterable[str], whose: Callable[[str], Any]
) -> None:
    opener: Callable[..., IO[str]] = gzip.open if packed else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"trace": summary.note()}, separators=(",", ":")) + "\n")
        for text in lines:
            line = json.loads(text.partition(" ")[2])
            summary.add(line)
            for name in LEFT_OUT:
                line.pop(name, None)
            if "tenant" in line:
                line["tenant"] = whose(str(line["tenant"]))
                if line["tenant"] is None:
                    del line["tenant"]
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _whose(tenants: Tenants) -> Callable[[str], Any]:
    if tenants == "as-they-are":
        return lambda tenant: tenant
    if tenants == "none":
        return lambda tenant: None
    numbers: dict[str, str] = {}
    return lambda tenant: numbers.setdefault(tenant, f"tenant-{len(numbers) + 1}")
