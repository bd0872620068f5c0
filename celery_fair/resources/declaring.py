"""What code may say of what it uses: checked where it is said."""

from __future__ import annotations

from typing import Final

from celery_fair.errors import BadOption
from celery_fair.headers import MAX_COUNT
from celery_fair.resources.settings import names_from

EXPECTED_TOKENS: Final = f"a whole number of tokens from 0 to {MAX_COUNT - 1}"


def known_uses(value: object, where: str) -> tuple[str, ...]:
    """Return names of resources; raises `BadOption` naming ``where`` they were said."""
    try:
        return names_from(value)
    except ValueError:
        raise BadOption(where, "the name of a resource, or a list of names", value) from None


def known_tokens(value: object, where: str) -> int:
    """Return a number of tokens; raises `BadOption` naming ``where`` it was said."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT:
        return value
    raise BadOption(where, EXPECTED_TOKENS, value)
