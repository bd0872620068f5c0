"""What the text of a variable of the environment, or of a command, means as a setting."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any, Final, get_args

from celery_fair.errors import FairWarning, did_you_mean
from celery_fair.settings.fields import Fields
from celery_fair.settings.sharing import SECRETS

#: Two underscores: one would meet click's own variables of the ``celery fair`` commands, and those
#: that Kubernetes injects for a service called celery-fair.
ENV_PREFIX: Final = "CELERY_FAIR__"


def environment(environ: Mapping[str, str], fields: Fields) -> dict[str, Any]:
    """Read the variables of the environment that are ours."""
    found: dict[str, Any] = {}
    for variable, text in environ.items():
        # Empty is how compose files and shells write "not set".
        if not variable.startswith(ENV_PREFIX) or not text.strip():
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        if name in fields:
            found[name] = meant(name, text.strip(), fields)
        else:
            hint = did_you_mean(name, fields)
            warnings.warn(
                f"{variable} is ignored: there is no setting {name!r}{hint}",
                FairWarning,
                stacklevel=2,
            )
    return found


def meant(name: str, text: str, fields: Fields) -> Any:
    """Turn the text of a variable, or of a command, into the value that it most likely means."""
    if name in SECRETS:  # it may look like a number
        return text
    annotation = fields[name].annotation
    if annotation is bool:
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        return words.get(text.lower(), text)
    if text.lower() in ("none", "null") and type(None) in get_args(annotation):
        return None
    for read in (json.loads, float):  # JSON knows no ".3"
        try:
            return read(text)
        except ValueError:
            pass
    return text
