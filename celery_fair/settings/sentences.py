"""A bad setting as a sentence: what was expected, what was got, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from celery_fair.errors import did_you_mean
from celery_fair.settings.fields import Fields
from celery_fair.settings.sharing import SECRETS


def sentences(
    error: ValidationError, values: Mapping[str, Any], labels: Mapping[str, str], fields: Fields
) -> list[str]:
    """One sentence a setting: pydantic reports each branch of a union and each item of a dict."""
    found = error.errors(include_url=False)
    names = dict.fromkeys(str(detail["loc"][0]) for detail in found)
    said = {str(detail["loc"][0]): str(detail.get("ctx", {}).get("error", "")) for detail in found}
    return [
        _sentence(name, values.get(name), labels.get(name, name), said[name], fields)
        for name in names
    ]


def _sentence(name: str, value: Any, label: str, said: str, fields: Fields) -> str:
    """One setting's; ``said`` is what its own check has found, if it has words for it."""
    if name not in fields:
        hint = did_you_mean(name, fields)
        return f"{label}: there is no setting {name!r}{hint or '; docs/settings.md lists them all'}"
    field = fields[name]
    cure = cast("dict[str, str]", field.json_schema_extra)["cure"]
    near = f": {said}" if said else _near_word(value, field.description or "")
    got = "something else" if name in SECRETS else f"{value!r}{near}"
    return f"{label}: expected {field.description}, got {got} ({cure})"


def _near_word(value: Any, expected: str) -> str:
    """Point at a misspelt word, alone or inside a dict."""
    known = re.findall(r"'(\w+)'", expected)
    words = [value]
    if isinstance(value, Mapping):
        words = [word for item in value.items() for word in item]
    hints = (did_you_mean(w, known) for w in words if isinstance(w, str) and w not in known)
    return next((hint for hint in hints if hint), "")
