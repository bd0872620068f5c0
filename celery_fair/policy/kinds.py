"""The two kinds of work."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["interactive", "batch"]

INTERACTIVE: Final = "interactive"
BATCH: Final = "batch"
KINDS: Final[tuple[Kind, Kind]] = (INTERACTIVE, BATCH)
