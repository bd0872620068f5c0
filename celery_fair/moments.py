"""Times that a call names in Celery's ways; what can't be read is Celery's to complain of."""

from __future__ import annotations

from typing import Any, Final

from celery.utils.time import maybe_iso8601, maybe_make_aware

_UNREADABLE: Final = (TypeError, ValueError, OverflowError, AttributeError)


def seconds_of(countdown: Any) -> float | None:
    """Return a countdown in seconds, or None for what is no number."""
    try:
        return float(countdown)
    except _UNREADABLE:
        return None


def epoch_of(moment: Any, app: Any) -> float | None:
    """Return an ETA or an expiry, a datetime or ISO 8601, in epoch seconds; None if it is none.

    One without a time zone is in the app's.
    """
    try:
        return float(maybe_make_aware(maybe_iso8601(moment), app.timezone).timestamp())
    except _UNREADABLE:
        return None
