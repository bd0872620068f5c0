"""One trace of what many workers have written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from celery_fair.record import merging
from celery_fair.record.lines import batch_of
from celery_fair.record.merging import files_of, merge
from celery_fair.sim.trace import read_note, read_recorded, read_trace

BEGAN = 1_795_982_400.0


def line(at: float, kind: str = "interactive", **more: Any) -> str:
    fields = {"at": BEGAN + at, "kind": kind, "seconds": 0.5, "waited": 0.1, "task": "t", "id": 1}
    return json.dumps({**fields, **more}) + "\n"


def batch(number: int, *lines: str, worker: str = "w1", **more: Any) -> bytes:
    note = {"batch": f"{worker} 1 {number}", "worker": worker, "sample": 1.0, "since": BEGAN,
            "until": BEGAN + 60, "lost": 0}  # fmt: skip
    return gzip.compress(batch_of({**note, **more}, lines))


def told(path: Path) -> list[tuple[float, str, float]]:
    return [(round(one.at, 3), one.kind, one.seconds) for one in read_recorded(path)]


def test_lines_of_all_workers_come_in_order_of_time(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "SORTED_AT_ONCE", 2)
    (tmp_path / "a.jsonl.gz").write_bytes(batch(0, line(3), line(1)) + batch(1, line(9)))
    (tmp_path / "b.jsonl.gz").write_bytes(batch(0, line(2, "batch"), line(7), worker="w2"))
    summary = merge(files_of([tmp_path]), tmp_path / "day.jsonl")
    assert [at for at, _, _ in told(tmp_path / "day.jsonl")] == [0, 1, 2, 6, 8]
    assert summary.workers == {"w1", "w2"}
    assert summary.tasks == {"interactive": 4, "batch": 1}
    assert read_note(tmp_path / "day.jsonl")["until"] == BEGAN + 60
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.jsonl.gz", "b.jsonl.gz", "day.jsonl",
    ]  # fmt: skip


def test_a_batch_that_was_written_twice_counts_once(tmp_path):
    raw = tmp_path / "raw"
    raw.write_bytes(batch(0, line(1)) + batch(0, line(1)) + batch(1, line(2)))
    assert merge([raw], tmp_path / "day.gz").tasks["interactive"] == 2


def test_the_parts_of_a_task_that_yielded_are_one_task(tmp_path):
    raw = tmp_path / "raw"
    part = {"kind": "batch", "first": BEGAN + 1}
    raw.write_bytes(
        batch(0, line(8, **part, part=1, waited=5.0, id=7), line(4, **part, part=0, id=8))
        + batch(1, line(1, **part, part=0, waited=0.3, id=7, outcome="yielded"), worker="w2")
    )
    summary = merge([raw], tmp_path / "day")
    first, other = read_recorded(tmp_path / "day")
    assert (first.seconds, first.waited, other.seconds) == (1.0, 0.3, 0.5)
    assert summary.joined == 2
    assert '"yielded":1' in (tmp_path / "day").read_text()


def test_what_waited_before_recording_began_comes_then(tmp_path):
    raw = tmp_path / "raw"
    raw.write_bytes(batch(0, line(-100, "batch", waited=130.0), line(5)))
    summary = merge([raw], tmp_path / "day")
    early, _ = read_recorded(tmp_path / "day")
    assert (early.at, early.waited) == (0.0, 30.0)
    assert summary.waiting_at_start == 1


def test_the_smallest_sample_is_that_of_the_whole_and_is_made_up_for(tmp_path):
    raw = tmp_path / "raw"
    many = [line(number, id=number * 2**28) for number in range(16)]
    raw.write_bytes(batch(0, *many) + batch(0, many[0], worker="w2", sample=0.25))
    summary = merge([raw], tmp_path / "day")
    assert summary.sample == 0.25
    assert len(list(read_recorded(tmp_path / "day"))) == 5
    assert len(list(read_trace(tmp_path / "day"))) == 20


@pytest.mark.parametrize(
    ("tenants", "expected"),
    [("numbered", ["tenant-1", "tenant-2", "tenant-1"]), ("as-they-are", ["b", "a", "b"]),
     ("none", [None] * 3)],
)  # fmt: skip
def test_a_file_says_of_tenants_what_was_asked_for(tmp_path, tenants, expected):
    raw = tmp_path / "raw"
    raw.write_bytes(batch(0, line(1, tenant="b"), line(2, tenant="a"), line(3, tenant="b")))
    merge([raw], tmp_path / "day", tenants)
    assert [one.tenant for one in read_recorded(tmp_path / "day")] == expected


def test_what_cannot_be_read_is_counted_and_left_out(tmp_path):
    raw = tmp_path / "raw"
    bad = ["{\n", "[]\n", '{"at": 1}\n', line(1, kind="bach"), line(1, seconds=-1)]
    raw.write_bytes(batch(0, line(1), *bad) + gzip.compress(b"nonsense\n") + b"\x1f\x8bcut")
    summary = merge([raw], tmp_path / "day")
    assert (summary.tasks["interactive"], summary.unreadable) == (1, 6)


def test_a_target_that_cannot_be_written_is_left_as_it_was(tmp_path):
    raw, target = tmp_path / "raw", tmp_path / "day"
    raw.write_bytes(batch(0, line(1)))
    target.mkdir()
    with pytest.raises(OSError, match="day"):
        merge([raw], target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day", "raw"]
