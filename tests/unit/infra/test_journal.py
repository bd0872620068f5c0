"""The journal: what tasks append is what a test reads, in order."""

from __future__ import annotations

import threading

import pytest

from tests.brokers.waiting import NotInTimeError
from tests.nodes.journal import VARIABLE, Journal, record


@pytest.fixture
def journal(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    monkeypatch.setenv(VARIABLE, str(path))
    return Journal(path)


def test_an_untouched_journal_is_empty(journal):
    assert journal.entries() == []


def test_entries_come_back_in_the_order_of_writing(journal):
    record("start", "a")
    record("start", "b")
    record("finish", "b", seconds=2)
    assert journal.started() == ["a", "b"]
    assert journal.finished() == ["b"]
    assert journal.running() == ["a"]
    assert journal.entries("finish")[0].more == {"seconds": 2}


def test_a_line_that_is_still_being_written_is_left_for_later(journal):
    record("start", "a")
    with journal.path.open("a") as file:
        file.write('{"event": "sta')
    assert journal.started() == ["a"]


def test_threads_do_not_tear_each_others_lines(journal):
    def write(number):
        for _ in range(200):
            record("start", number, padding="x" * 500)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journal.entries()) == 800


def test_a_wait_in_vain_tells_what_the_journal_says(journal):
    record("start", "a")
    with pytest.raises(NotInTimeError, match=r"finish of .*it says:\n.*start"):
        journal.wait_finished("a", timeout=0)


def test_without_the_variable_nothing_is_written(journal, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    record("start", "a")
    assert journal.entries() == []
