"""Redis' own books: its append-only file, replayed message by message."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.account import Key


@dataclass(slots=True)
class Books:
    """What Redis did with each message, and where each is now."""

    history: dict[Key, list[str]] = field(default_factory=lambda: defaultdict(list))
    in_hand: dict[Key, int] = field(default_factory=dict)
    """Popped and neither noted as unacknowledged nor acknowledged since; by Redis' clock."""
    lists: dict[str, deque[Key | None]] = field(default_factory=lambda: defaultdict(deque))
    tags: dict[str, Key | None] = field(default_factory=dict)
    """The messages noted as unacknowledged."""


def replay(folder: Path) -> Books:
    """The books of the server that has this folder."""
    books = Books()
    second = 0
    for path in sorted((folder / "appendonlydir").glob("*.incr.aof"), key=_number):
        for command in _commands(path):
            if isinstance(command, int):
                second = command
            else:
                _apply(books, second, *command)
    return books


def _number(path: Path) -> int:
    return int(path.name.split(".")[-3])


def _commands(path: Path) -> Iterator[list[bytes] | int]:
    """The commands of one file, and the seconds between them; a torn end is left out."""
    with path.open("rb") as file, suppress(IndexError, ValueError):
        while line := file.readline():
            if line.startswith(b"#TS:"):
                yield int(line[4:])
            elif line.startswith(b"*"):
                yield [_argument(file) for _ in range(int(line[1:]))]


def _argument(file) -> bytes:
    length = int(file.readline()[1:])
    value = file.read(length)
    file.read(2)
    return value


def _apply(books: Books, second: int, name: bytes, *arguments: bytes) -> None:
    if name.upper() not in (b"LPUSH", b"RPUSH", b"RPOP", b"LPOP", b"HSET", b"HDEL"):
        return
    place, *values = arguments
    where = place.decode().partition("\x06")[0]
    if name.upper() in (b"LPUSH", b"RPUSH"):
        _pushed(books, second, where, place.decode(), name.upper() == b"LPUSH", values)
    elif name.upper() in (b"RPOP", b"LPOP"):
        waiting = books.lists[place.decode()]
        key = (waiting.pop if name.upper() == b"RPOP" else waiting.popleft)() if waiting else None
        if key:
            books.history[key].append(f"{second} popped from {where}")
            books.in_hand[key] = second
    elif where == "unacked":
        _noted(books, second, name.upper() == b"HSET", values)


def _pushed(
    books: Books, second: int, where: str, place: str, left: bool, values: list[bytes]
) -> None:
    for value in values:
        key = _key(value)
        (books.lists[place].appendleft if left else books.lists[place].append)(key)
        if key:
            end = "put to the end" if left else "put to the front"
            books.history[key].append(f"{second} {end} of {where}")


def _noted(books: Books, second: int, is_set: bool, values: list[bytes]) -> None:
    if is_set:
        for tag, value in zip(values[::2], values[1::2], strict=False):
            key = books.tags[tag.decode()] = _key(json.dumps(json.loads(value)[0]).encode())
            if key:
                books.history[key].append(f"{second} noted as unacknowledged")
                books.in_hand.pop(key, None)
        return
    for tag in values:
        key = books.tags.pop(tag.decode(), None)
        if key:
            books.history[key].append(f"{second} no longer unacknowledged")


def _key(message: bytes) -> Key | None:
    """The key of a task's message; ``None`` for others, as answers to commands."""
    try:
        headers = json.loads(message)["headers"]
        return Key(headers["id"], headers.get("retries") or 0)
    except (ValueError, KeyError, TypeError):
        return None
