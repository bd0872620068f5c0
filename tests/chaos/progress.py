"""How far a chaos run is, read from the end of its journal as it grows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.account import ENDS


class Progress:
    """The messages published and ended so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._published: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()

    @property
    def ended(self) -> int:
        return len(self._ended)

    @property
    def open(self) -> int:
        """Published, and not ended yet."""
        return len(self._published - self._ended)

    def look(self) -> None:
        """Take in what was written since."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            entry = json.loads(line)
            key = (entry["label"], entry["more"].get("retries", 0))
            if entry["event"] == "published":
                self._published.add(key)
            elif entry["event"] in ENDS:
                self._ended.add(key)
