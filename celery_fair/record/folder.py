"""Files of one worker in a folder: gzip members that are whole, and never more than is set."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Iterator
from gzip import compress
from pathlib import Path
from typing import Final

from celery_fair.errors import SettingsError

ENDING: Final = ".jsonl.gz"
FILES: Final = 8
"""Of one worker, before the oldest goes: so much of the limit is lost with it."""
GZIP: Final = 31
LONGEST_BATCH: Final = 64_000_000
"""Bytes that one member may unpack to, whoever has written it."""


def check_folder(folder: Path) -> None:
    """Raise `SettingsError` where no file can be written; a full disk is none of that."""
    tried = folder / f".celery-fair-{os.getpid()}"
    try:
        tried.touch()
        tried.unlink()
    except OSError as error:
        raise SettingsError([
            f"record: expected a folder in which this worker can write files, got {str(folder)!r} "
            f"({error.strerror or error}): make it, and give it to the worker's user"
        ]) from error  # fmt: skip


class Folder:
    """Where one worker writes; its files carry its name, also those of its former lives."""

    def __init__(self, folder: Path, worker: str, limit_bytes: int) -> None:
        self._folder = folder
        self._prefix = re.sub(r"[^\w@.-]", "_", worker)[:100] + "."
        self._limit = limit_bytes
        self._path: Path | None = None

    def write(self, batch: bytes) -> None:
        """Append a whole member, or nothing; raises OSError."""
        member = compress(batch, 6)
        path = self._current(len(member))
        before = path.stat().st_size if path.exists() else 0
        try:
            with path.open("ab") as file:
                file.write(member)
        except OSError:
            self._cut(path, before)
            raise

    def _cut(self, path: Path, size: int) -> None:
        """Take back a part of a member, or nothing behind it could be read."""
        try:
            os.truncate(path, size)
        except OSError:
            self._path = None

    def _current(self, more: int) -> Path:
        path = self._path
        if path is None or not path.exists() or path.stat().st_size + more > self._limit // FILES:
            began = f"{time.time_ns() // 1000:016d}"
            path = self._path = self._folder / f"{self._prefix}{began}-{os.getpid()}{ENDING}"
            self._prune(self._limit - self._limit // FILES)
        return path

    def _prune(self, limit: int) -> None:
        own = sorted(
            path
            for path in self._folder.iterdir()
            if path.name.startswith(self._prefix) and path.name.endswith(ENDING)
            and re.fullmatch(r"\d{16}-\d+", path.name[len(self._prefix) : -len(ENDING)])
        )  # fmt: skip
        sizes = [path.stat().st_size for path in own]
        for path, size in zip(own, sizes, strict=True):
            if sum(sizes) <= limit:
                return
            sizes = sizes[1:]
            path.unlink(missing_ok=True)
            del size


def read_batches(path: Path) -> Iterator[bytes]:
    """Yield the members of a file that are whole; what a kill or a full disk has cut ends it."""
    with path.open("rb") as file:
        rest = b""
        while True:
            found, unpacker = bytearray(), zlib.decompressobj(GZIP)
            while not unpacker.eof:
                part = rest or file.read(65_536)
                rest = b""
                if not part:
                    return
                try:
                    found += unpacker.decompress(part, LONGEST_BATCH)
                except zlib.error:
                    return
                if len(found) > LONGEST_BATCH or unpacker.unconsumed_tail:
                    return
            rest = unpacker.unused_data
            yield bytes(found)
