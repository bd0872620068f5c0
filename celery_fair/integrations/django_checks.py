"""What `fair doctor` finds in an app alone, as system checks of Django; opens no connection.

``FAIR_APP`` names the project's Celery app, as ``-A`` does: "proj.celery:app". Without it the app
is the one that Celery's own guide makes for Django: ``app`` in a module ``celery`` beside the
settings, if the project has imported it. With neither only the settings are checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from celery import Celery
from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string

from celery_fair import Fair, FairSettings, SettingsError

TAG: Final = "celery_fair"

MESSAGES: Final = {"error": checks.Error, "warning": checks.Warning, "info": checks.Info}

BAD_SETTINGS: Final = "F009"


class NoApp(Exception):  # noqa: N818 - named for what is wrong
    """``FAIR_APP`` names no Celery app with a Fair."""


def check_app(**_: Any) -> list[checks.CheckMessage]:
    """Return a message for each warning and error; its id is that of the finding."""
    return [message for message in _messages() if message.level >= checks.WARNING]


def check_notes(**_: Any) -> list[checks.CheckMessage]:
    """Return a message for each note: for ``check --deploy``, since most are a matter of taste."""
    return [message for message in _messages() if message.level < checks.WARNING]


def _messages() -> Iterator[checks.CheckMessage]:
    try:
        fair = find_fair()
    except NoApp as error:
        yield checks.Error(str(error), id="celery_fair.E003")
        return
    if fair is None:
        return
    for finding in fair.findings():
        if finding.id == BAD_SETTINGS and _has_bad_settings():
            continue
        yield MESSAGES[finding.severity](
            finding.what, hint=f"{finding.why} {finding.cure}", id=f"celery_fair.{finding.id}"
        )


def _has_bad_settings() -> bool:
    """Whether ``CELERY_FAIR`` alone is refused, which has messages of its own (E001)."""
    try:
        FairSettings.load(getattr(settings, "CELERY_FAIR", {}), {}, os.environ)
    except SettingsError:
        return True
    return False


def find_fair() -> Fair | None:
    """Return the Fair of the project's app, or None if there is no telling; raises `NoApp`."""
    named = getattr(settings, "FAIR_APP", None)
    app = _conventional() if named is None else _named(named)
    fair = Fair.of(app) if app is not None else None
    if named is not None and fair is None:
        raise NoApp(f"FAIR_APP: expected an app with a Fair, got {named!r}: call Fair(app) there")
    return fair


def _named(named: Any) -> Celery:
    app = named
    if isinstance(named, str):
        try:
            app = import_string(named.replace(":", "."))
        except ImportError as error:
            raise NoApp(
                f'FAIR_APP: expected an app or its path, as in "proj.celery:app": {error}'
            ) from error
    if not isinstance(app, Celery):
        raise NoApp(f"FAIR_APP: expected a Celery app, got {type(app).__name__}")
    return app


def _conventional() -> Celery | None:
    package = str(settings.SETTINGS_MODULE) if hasattr(settings, "SETTINGS_MODULE") else ""
    while package := package.rpartition(".")[0]:
        app = getattr(sys.modules.get(f"{package}.celery"), "app", None)
        if isinstance(app, Celery):
            return app
    return None
