"""How a setting is declared: its default, what is expected of it, and the cure of a bad value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Fields = Mapping[str, FieldInfo]
Seconds = float
T = TypeVar("T")


class Settings(BaseModel):
    """Some settings of one subject; `FairSettings` has them all."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def setting(default: T, expected: str, cure: str, **limits: Any) -> T:
    """A field whose error reads "expected <expected>, got …: <cure>"."""
    field: T = Field(
        default=default, description=expected, json_schema_extra={"cure": cure}, **limits
    )
    return field
