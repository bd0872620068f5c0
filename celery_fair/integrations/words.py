"""What a request may say of itself: words that come from outside, checked before they are used.

What isn't as expected is as if it hadn't been said; it is never cut or mended into something else.
Nothing here says what came: it is a stranger's, and would end up in a log.
"""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

from celery_fair import KINDS, Kind

#: As long as an identifier in a task's header can be. A longer one isn't cut: two requests could
#: become one.
MAX_TEXT: Final = 256

#: Printable ASCII without the comma: servers join the values of a header that was sent twice with
#: one, so the proxy added its own and left the client's in.
_TOLD: Final = re.compile(r"[ -+\--~]{1,256}")

EXPECTED_KIND: Final = " or ".join(repr(kind) for kind in KINDS)
EXPECTED_HEADER: Final = f"one value of printable ASCII without commas, up to {MAX_TEXT} long"
EXPECTED_IDENTITY: Final = (
    f"None, a number, a UUID or printable text of up to {MAX_TEXT} characters"
)


class Unusable(ValueError):  # noqa: N818 - named for what the word is
    """A word that can't be used; the message says what was expected, never what came."""


def told_kind(text: str | None) -> Kind | None:
    """Return the kind that a header says; None for one that isn't there. Raises `Unusable`."""
    word = (text or "").strip(" \t")
    return _kind(word.lower()) if word else None


def told_identity(text: str | None) -> str | None:
    """Return the identity that a header says; None if it isn't there. Raises `Unusable`."""
    word = (text or "").strip(" \t")
    if not word:
        return None
    if _TOLD.fullmatch(word) is None:
        raise Unusable(EXPECTED_HEADER)
    return word


def answered_kind(answer: object) -> Kind | None:
    """Return the kind that a callable answered. Raises `Unusable`."""
    return None if answer is None else _kind(answer)


def answered_identity(answer: Any) -> str | None:
    """Return the identity that a callable answered, as text. Raises `Unusable`."""
    if answer is None or answer == "":
        return None
    if isinstance(answer, (str, int, UUID)) and not isinstance(answer, bool):
        word = str(answer)
        if len(word) <= MAX_TEXT and word.isprintable():
            return word
    raise Unusable(EXPECTED_IDENTITY)


def _kind(word: object) -> Kind:
    # The constant goes on from here, not the request's own text.
    for kind in KINDS:
        if word == kind:
            return kind
    raise Unusable(EXPECTED_KIND)
