"""Django in the tests' process: it can be configured once, so all of them share this."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings


def configured() -> Any:
    """Configure Django, at the first call; returns `override_settings`."""
    if not settings.configured:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(
            SECRET_KEY="x",
            ALLOWED_HOSTS=["*"],
            DATABASES={"default": database},
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        )
        django.setup()
    from django.test import override_settings

    return override_settings
