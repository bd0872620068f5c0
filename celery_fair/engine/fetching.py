"""Fetches a page of metrics, within a bounded time and size."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from kombu.utils.url import maybe_sanitize_url

MOST_BYTES: Final = 8 * 2**20
_AT_ONCE: Final = 2**16


class FetchError(OSError):
    """The page could not be had."""


def checked_url(url: str) -> str:
    """Return the URL of a page; raises `ValueError` for what isn't one (a file's, say)."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ValueError(
            f"expected the URL of a metrics page, got {url!r}: as in 'http://host:8000/metrics'"
        )
    return url


def fetch(url: str, timeout_seconds: float, headers: Mapping[str, str]) -> str:
    """Return the page's text; raises `OSError`. A server that drips is cut off like a mute one."""
    until = monotonic() + timeout_seconds
    request = Request(url, headers=dict(headers))
    try:
        with urlopen(request, timeout=timeout_seconds) as response:  # checked by `checked_url`
            parts, size = [], 0
            while part := response.read1(_AT_ONCE):
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES:
                    raise FetchError(f"{shown(url)} has more than {MOST_BYTES} bytes")
                if monotonic() > until:
                    raise FetchError(f"{shown(url)} took longer than {timeout_seconds:g} s")
    except HTTPError as error:
        error.close()
        raise FetchError(f"{shown(url)} answered {error.code}") from None
    return b"".join(parts).decode("utf-8", errors="replace")


def shown(url: str) -> str:
    """The URL as anybody may see it."""
    return str(maybe_sanitize_url(url)).partition("?")[0]
