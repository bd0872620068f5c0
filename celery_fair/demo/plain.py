"""``celery -A celery_fair.demo.plain worker``."""

from __future__ import annotations

import os

from celery_fair.demo.apps import BROKER_VARIABLE, plain_app

app = plain_app(os.environ.get(BROKER_VARIABLE, "memory://"))
