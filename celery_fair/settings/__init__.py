"""The settings: read once, checked whole, frozen."""

from __future__ import annotations

from celery_fair.settings.settings import DEFAULT, LIVE, FairSettings, parsed
from celery_fair.settings.sharing import SECRETS, keyed_hash

__all__ = ("DEFAULT", "LIVE", "SECRETS", "FairSettings", "keyed_hash", "parsed")
