"""Text for whatever the output can take."""

from __future__ import annotations

import codecs
import sys
from typing import Final

IN_ASCII: Final = str.maketrans("–—…≤≥×→\N{NO-BREAK SPACE}▁▂▃▄▅▆▇█", "--.<>x> 12345678")
"""One character for one, so that columns stay columns."""

ASCII: Final = "celery_fair_ascii"
ERRORS: Final = "celery_fair_alike"


def write_with_any_encoding() -> None:
    """Let an output that is not in Unicode have signs that look alike, instead of an error.

    The console of Windows, a locale ``C`` or PYTHONIOENCODING may take less than is written.
    """
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower()
        reconfigure = getattr(stream, "reconfigure", None)
        if not encoding.startswith("utf") and reconfigure is not None:
            reconfigure(encoding=ASCII if _is_ascii(encoding) else encoding, errors=ERRORS)


def _is_ascii(encoding: str) -> bool:
    return not encoding or codecs.lookup(encoding).name == "ascii"


def _ascii(name: str) -> codecs.CodecInfo | None:
    """ASCII by a name that click doesn't take for a mistake: it writes UTF-8 to what has that."""
    if name != ASCII:
        return None
    of = codecs.lookup("ascii")
    return codecs.CodecInfo(
        of.encode, of.decode, of.streamreader, of.streamwriter,
        of.incrementalencoder, of.incrementaldecoder, name=ASCII,
    )  # fmt: skip


def _alike(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(IN_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


codecs.register_error(ERRORS, _alike)
codecs.register(_ascii)
