"""``celery -A celery_fair.demo.fair worker``."""

from __future__ import annotations

import os

from celery_fair.demo.apps import BROKER_VARIABLE, fair_app

app = fair_app(os.environ.get(BROKER_VARIABLE, "memory://"))
