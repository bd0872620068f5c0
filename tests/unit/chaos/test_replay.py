"""Redis' append-only file, replayed: where each message is, and what became of it."""

from __future__ import annotations

import json

import pytest

from tests.chaos.account import Key
from tests.chaos.replay import replay


def message(task_id, retries=0):
    return json.dumps({"headers": {"id": task_id, "retries": retries}})


@pytest.fixture
def books(tmp_path):
    """``books(commands…)``: the books of a server that was given these."""

    def write(*commands, torn=b""):
        folder = tmp_path / "appendonlydir"
        folder.mkdir()
        text = b"#TS:100\r\n"
        for command in commands:
            parts = [part.encode() for part in command]
            text += b"*%d\r\n" % len(parts)
            text += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        (folder / "appendonly.aof.1.incr.aof").write_bytes(text + torn)
        return replay(tmp_path)

    return write


def test_what_was_popped_and_not_noted_is_in_hand(books):
    found = books(("LPUSH", "celery", message("a"), message("b")), ("RPOP", "celery"))
    assert found.in_hand == {Key("a", 0): 100}
    assert list(found.lists["celery"]) == [Key("b", 0)]


def test_what_was_noted_is_unacknowledged_until_it_is_acknowledged(books):
    noted = json.dumps([json.loads(message("a", 2)), "", "celery"])
    commands = [
        ("LPUSH", "celery", message("a", 2)),
        ("RPOP", "celery"),
        ("HSET", "unacked", "tag", noted),
    ]
    assert not books(*commands, ("HDEL", "unacked", "tag")).in_hand


def test_a_restored_message_is_read_first(books):
    found = books(
        ("LPUSH", "celery", message("a")),
        ("RPUSH", "celery", message("b")),
        ("RPOP", "celery"),
    )
    assert list(found.in_hand) == [Key("b", 0)]
    assert found.history[Key("b", 0)] == [
        "100 put to the front of celery",
        "100 popped from celery",
    ]


def test_a_torn_end_and_other_messages_are_left_out(books):
    found = books(
        ("LPUSH", "w1.pidbox", json.dumps({"headers": {}})), torn=b"*3\r\n$5\r\nLPUSH\r\n$3"
    )
    assert not found.history
