"""What the engine behind the tasks says of itself: probes to give to the setting ``load_probe``.

A probe is any callable without arguments that returns an `EngineLoad`, a number or a truth value;
`docs/engine.md` has what that does.
"""

from __future__ import annotations

from celery_fair.engine.load import EngineLoad
from celery_fair.engine.prometheus import PrometheusLoad
from celery_fair.engine.vllm import VLLMLoad

__all__ = ("EngineLoad", "PrometheusLoad", "VLLMLoad")
