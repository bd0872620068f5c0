"""A load probe by its dotted name, of the server that the environment names."""

from __future__ import annotations

import os

from celery_fair.engine import EngineLoad, VLLMLoad


def probe() -> EngineLoad:
    return VLLMLoad(os.environ["ENGINE_URL"], waiting=8, model="m")()
