"""The part of the settings that says what workers share; frozen and checked as the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from celery_fair.errors import did_you_mean
from celery_fair.resources.rules import BURST_SECONDS, OF_KIND

#: A name is a part of keys in Redis, of labels, and of lists with commas.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


class ResourceSettings(BaseModel):
    """One resource: its places, its budgets, and what is kept of them for interactive tasks."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    max_running: int | None = Field(None, ge=1, description="a number of tasks from 1, or none")
    requests_per_minute: float | None = Field(None, gt=0.0, description="a number over 0, or none")
    tokens_per_minute: float | None = Field(None, gt=0.0, description="a number over 0, or none")
    interactive_reserve: float = Field(0.0, ge=0.0, lt=1.0, description="a part in [0, 1)")
    burst_seconds: float = Field(
        BURST_SECONDS, gt=0.0, le=60.0, description="seconds over 0, 60 at most"
    )


def resources_from(value: Any) -> dict[str, ResourceSettings]:
    """Read the setting ``resources``; raises `ValueError` with what is wrong in words, or none."""
    if not isinstance(value, Mapping):
        raise ValueError
    problems: list[str] = []
    found = {}
    for name, fields in value.items():
        _check_name(name, problems)
        try:
            found[name] = ResourceSettings.model_validate(fields)
        except ValidationError as error:
            problems += _problems(name, fields, error)
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _check_name(name: object, problems: list[str]) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        problems.append(f"{name!r} is no name of letters, digits and _ . : / -, 64 at most")
    elif name.startswith(OF_KIND):
        setting = name.removeprefix(OF_KIND) + "_max_running"
        problems.append(f"{name!r} begins with {OF_KIND!r}, which {setting} is for")


def _problems(name: str, fields: object, error: ValidationError) -> list[str]:
    known = ResourceSettings.model_fields
    said = []
    for detail in error.errors(include_url=False):
        field = str(detail["loc"][0]) if detail["loc"] else ""
        if not field:
            said.append(f"of {name!r} expected a dict, got {fields!r}")
        elif field not in known:
            hint = did_you_mean(field, known) or f"; there are {', '.join(known)}"
            said.append(f"{name!r} can't have {field!r}{hint}")
        else:
            expected = f"expected {known[field].description}, got {detail['input']!r}"
            said.append(f"{field} of {name!r}: {expected}")
    return said


def uses_from(value: Any) -> dict[str, tuple[str, ...]]:
    """Read the setting ``uses``: names of tasks, and what each uses; raises `ValueError`."""
    if not isinstance(value, Mapping):
        raise ValueError
    return {glob: names_from(names) for glob, names in value.items() if _is_text(glob)}


def names_from(value: Any) -> tuple[str, ...]:
    """Return names of resources, sorted, none twice, of one name or some; raises `ValueError`."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple, set, frozenset)) or not names:
        raise ValueError
    if not all(_is_text(name) for name in names):
        raise ValueError
    return tuple(sorted(set(names)))


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or not value:
        raise ValueError
    return True
