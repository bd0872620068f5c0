"""What a worker notes of the tasks that end in it, and what it does when that can't be written."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair
from celery_fair.errors import SettingsError, StateAway
from celery_fair.policy.load import Mode
from celery_fair.record import recording
from celery_fair.record.folder import ENDING, read_batches
from celery_fair.record.lines import digest_of
from celery_fair.record.recording import Recording
from celery_fair.state import Refused
from celery_fair.worker.slots import Slot

NOW = 1_795_982_400.0


def slot(id: str = "a", header: str | None = f"batch {NOW - 5}", **headers: Any) -> Slot:
    """It was received a second ago by a clock that reads 100, and has run for 2 s since 101."""
    if header is not None:
        headers["fair"] = header
    message = SimpleNamespace(headers=headers)
    request = SimpleNamespace(id=id, task=SimpleNamespace(name="shop.report"), message=message,
                              _message=message)  # fmt: skip
    made = Slot(None, "batch", request, 101.0, 100.0, NOW - 5, Mode.OPEN)  # type: ignore[arg-type]
    made.finished_at, made.outcome = 103.0, "succeeded"
    return made


def made(folder: Any = None, **settings: Any) -> Recording:
    app = Celery("shop", broker="memory://")
    if folder is not None:
        settings["record"] = str(folder)
    return Recording(Fair(app, **settings), "w1@shop")


def lines(folder: Any) -> list[dict[str, Any]]:
    batches = [one for path in sorted(folder.glob("*" + ENDING)) for one in read_batches(path)]
    found = [json.loads(line) for batch in batches for line in batch.splitlines()]
    return [line for line in found if "trace" not in line]


def written(found: Recording, folder: Any, *slots: Slot) -> list[dict[str, Any]]:
    found.ended(slots, NOW - 101.0)
    found.start()
    found.stop()
    return lines(folder)


def test_a_task_is_one_line_with_the_time_of_its_publishing(tmp_path):
    (line,) = written(made(tmp_path), tmp_path, slot(argsrepr="('secret',)"))
    assert line == {
        "at": NOW - 5, "kind": "batch", "seconds": 2.0, "waited": 5.0, "task": "shop.report",
        "id": digest_of("a"),
    }  # fmt: skip


def test_a_message_without_a_header_counts_from_its_receipt_and_says_so(tmp_path):
    (line,) = written(made(tmp_path), tmp_path, slot(header=None))
    assert (line["at"], line["waited"], line["by"]) == (NOW - 1, 1.0, "receipt")


def test_retries_parts_tenants_and_endings_are_told(tmp_path):
    more = f'batch {NOW - 9} {{"tenant":"acme","yields":2,"ready_at":{NOW - 5}}}'
    one = slot(header=more, retries=1)
    one.outcome = "failed"
    (line,) = written(made(tmp_path), tmp_path, one)
    expected = {"tenant": "acme", "part": 2, "first": NOW - 9, "attempt": 1, "outcome": "failed"}
    assert line == line | expected


def test_a_sample_has_whole_tasks(tmp_path):
    many = [slot(id=str(number)) for number in range(1000)]
    found = written(made(tmp_path, record_sample=0.1), tmp_path, *many, *many)
    assert 100 < len(found) < 300
    assert {line["id"] for line in found[: len(found) // 2]} == {line["id"] for line in found}


def test_what_was_sent_by_a_clock_that_is_ahead_came_as_it_was_started(tmp_path):
    ahead = slot()
    ahead.ready_at = NOW + 3600
    (line,) = written(made(tmp_path), tmp_path, ahead)
    assert (line["at"], line["waited"]) == (NOW, 0.0)


def test_a_hostile_message_is_lost_and_counted(tmp_path):
    bad = slot()
    bad.request.id = None
    bad.request.task = None
    found = made(tmp_path)
    assert len(written(found, tmp_path, bad, slot())) == 1
    assert found.report()["lost"] == 1


class Away:
    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.batches: list[bytes] = []

    def write(self, batch: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.batches.append(batch)


def test_what_cannot_be_written_waits_in_bounded_memory_and_the_rest_is_counted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recording, "MOST", 5)
    found = made(tmp_path)
    target = found._target = Away(StateAway())
    found.ended([slot(id=str(number)) for number in range(8)], NOW - 101.0)
    found._flush()
    assert found.report() | {"lost": 3, "written": 0, "failures": 1} == found.report()
    target.error = None
    found._flush()
    assert found.written == 5
    assert target.batches[0].count(b"shop.report") == 5


def test_a_full_disk_is_logged_once_and_what_redis_refuses_is_lost(tmp_path, caplog):
    found = made(tmp_path)
    found._target = target = Away(OSError(28, "No space left on device"))
    found.ended([slot()], NOW - 101.0)
    found._flush()
    found._flush()
    assert [record.message.count("No space") for record in caplog.records] == [1]
    target.error = Refused()
    found._flush()
    assert found.report() | {"lost": 1, "written": 0} == found.report()


def test_nothing_is_noted_and_no_thread_begins_while_nobody_asks():
    found = made()
    found.ended([slot()], NOW - 101.0)
    found.start()
    assert (found._thread, len(found._waiting)) == (None, 0)
    found.stop()


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match="record: expected a folder"):
        made(tmp_path / "none")


def test_who_asks_is_told_why_nothing_is_recorded(tmp_path):
    assert "state_url" in (made().ask(60.0, 1.0) or "")
    assert "--from" in (made(tmp_path).ask(60.0, 1.0) or "")
