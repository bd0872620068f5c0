"""Keeps a reply small, whatever the number of queues and the length of their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from celery_fair.policy.kinds import Kind

NAMES_BYTES = 3600
"""For the names of the queues that a worker consumes, both kinds together."""
COUNTS_BYTES = 1200
"""For what is ready in them."""
SETTING_BYTES = 400
"""For one setting."""


def shorten_lists(kinds: Mapping[Kind, dict[str, Any]]) -> None:
    """Cut ``queues`` and ``ready`` of each kind, and say what was left out.

    ``queues_left_out`` is a number of queues, ``ready_left_out`` one of messages. A kind may use
    what the other leaves, and half of the whole at least; the fullest queues are kept.
    """
    for name, limit in (("queues", NAMES_BYTES), ("ready", COUNTS_BYTES)):
        sizes = {kind: _size(part[name]) for kind, part in kinds.items()}
        for kind, part in kinds.items():
            others = sum(sizes.values()) - sizes[kind]
            found, left_out = part[name], 0
            if found is not None:
                part[name], left_out = _cut(found, max(limit // 2, limit - others))
            part[f"{name}_left_out"] = left_out


def _cut(entries: Any, limit: int) -> tuple[Any, int]:
    """What fits of a list or, largest first, of a dict of counts; and how much does not."""
    if isinstance(entries, dict):
        ranked = sorted(entries, key=entries.__getitem__, reverse=True)
        kept = {entry: entries[entry] for entry in _fitting(ranked, limit, len('": 000000'))}
        return kept, sum(entries.values()) - sum(kept.values())
    names = _fitting(entries, limit, 0)
    return names, len(entries) - len(names)


def _fitting(names: list[str], limit: int, more: int) -> list[str]:
    """The first names that fit, with so many bytes beside each."""
    sizes = accumulate(_size([name]) + more for name in names)
    return [name for name, size in zip(names, sizes, strict=True) if size <= limit]


def short_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put a digest for a value that is too long: enough to see that two workers' values differ."""
    return {name: _short(value) for name, value in settings.items()}


def _short(value: Any) -> Any:
    if _size(value) <= SETTING_BYTES:
        return value
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    return f"{_size(value)} bytes, sha256 {digest[:16]}"


def _size(value: Any) -> int:
    return len(json.dumps(value))
