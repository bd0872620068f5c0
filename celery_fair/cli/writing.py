"""Text for whatever the output can take."""

from __future__ import annotations

import codecs
import sys
from typing import Final

IN_ASCII: Final = str.maketrans("–—…≤≥×→\N{NO-BREAK SPACE}▁▂▃▄▅▆▇█", "--.<>x> 12345678")
"""One character for one, so that columns stay columns."""

ERRORS: Final = "celery_fair_ascii"


def write_with_any_encoding() -> None:
    """Let an output that is not in Unicode have signs that look alike, instead of an error.

    The console of Windows, a locale ``C`` or PYTHONIOENCODING may take less than is written.
    """
    for stream in (sys.stdout, sys.stderr):
        if not (getattr(stream, "encoding", None) or "").lower().startswith("utf"):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors=ERRORS)


def _alike(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(IN_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


codecs.register_error(ERRORS, _alike)
