"""Where the items of a job come from, and how they are written."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from io import BufferedIOBase, RawIOBase, TextIOBase
from typing import Any

from kombu.utils.json import dumps, loads

from celery_fair.errors import BadOption

__all__ = ("check", "decode", "encode", "opened", "readable")

WHERE = "submit_job(items)"


def check(items: object) -> None:
    """Raise `BadOption` for what has no items, or has them in no order that could be resumed."""
    if isinstance(items, (str, bytes, bytearray)):
        expected = "items, or pathlib.Path(…) for the lines of a file"
    elif isinstance(items, (Mapping, Set)):
        expected = "items in an order that is the same each time, as a list or sorted(…)"
    elif isinstance(items, (RawIOBase, BufferedIOBase)):
        expected = "a file opened as text"
    elif isinstance(items, AsyncIterable) and not isinstance(items, Iterable):
        expected = "a list, a generator, a path or an open text file"
    elif isinstance(items, (os.PathLike, Iterable)):
        return
    else:
        expected = "a list, a generator, a path or an open text file"
    raise BadOption(WHERE, expected, type(items))


@contextmanager
def opened(items: Any) -> Iterator[Iterator[Any]]:
    """Go over the items; of a path or a text file, over its lines without their ends.

    An empty line is an item too, so that line n is item n - 1.
    """
    if isinstance(items, os.PathLike):
        with open(items, encoding="utf-8") as file:
            yield _lines(file)
    elif isinstance(items, TextIOBase):
        yield _lines(items)
    else:
        yield iter(items)


def _lines(file: Iterable[str]) -> Iterator[str]:
    return (line.removesuffix("\n") for line in file)


def encode(index: int, item: object) -> str:
    """Return an item as JSON, as kombu's serializer writes it; raises `BadOption` where it can't.

    Never with the item itself in the message, which may be anybody's.
    """
    try:
        text: str = dumps(item)
    except Exception as error:
        raise BadOption(f"item {index}", "what JSON can hold", type(item)) from error
    return text


def decode(text: str) -> Any:
    """Return an item; tuples come back as lists."""
    return loads(text)


def readable(text: str) -> Any:
    """Return an item or a result for somebody to look at: its JSON where it can't be decoded.

    As of a dict that looks like kombu's way to write a type, and isn't; it may be a stranger's.
    """
    try:
        return decode(text)
    except Exception:
        return text
