"""A probe of vLLM's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from celery_fair.engine.fetching import shown
from celery_fair.engine.load import EngineLoad
from celery_fair.engine.prometheus import TIMEOUT_SECONDS, PrometheusLoad, scaled

WAITING: Final = "vllm:num_requests_waiting"
KV_CACHE: Final = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""A part of 1; the second is its older name."""

IDLE_CACHE: Final = 0.8
"""A cache is no burden at this part of what is fine: it is well filled in an engine that works."""


class VLLMLoad(PrometheusLoad):
    """How many requests wait in a vLLM server: ``VLLMLoad("http://vllm:8000", waiting=8)``.

    ``waiting`` is how many are fine, over all engines behind the URL; each that runs has waited for
    a moment, so that one or two mean nothing. ``kv_cache``, a part in (0, 1], counts too where it
    is given: the fullest engine's cache. ``model`` is one of several that are served there.
    """

    def __init__(
        self,
        url: str,
        *,
        waiting: float = 8,
        kv_cache: float | None = None,
        model: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if kv_cache is not None and not 0 < kv_cache <= 1:
            raise ValueError(f"expected kv_cache to be a part in (0, 1], or None, got {kv_cache!r}")
        base = str(url).rstrip("/").removesuffix("/metrics")
        super().__init__(
            f"{base}/metrics",
            WAITING,
            full_at=waiting,
            labels={} if model is None else {"model_name": model},
            timeout_seconds=timeout_seconds,
            headers=headers,
        )
        self._kv_cache = kv_cache

    def __repr__(self) -> str:
        return f"VLLMLoad({shown(self._url)!r})"

    def __call__(self) -> EngineLoad:
        """Raises as `PrometheusLoad` does."""
        page = self.page()
        waiting = self.value(page, WAITING, of=sum)
        pressure, detail = waiting / self._full_at, f"waiting requests: {waiting:g}"
        if self._kv_cache is not None:
            cache = self.value(page, *KV_CACHE, of=max)
            idle_at = IDLE_CACHE * self._kv_cache
            pressure = max(pressure, scaled(cache, full_at=self._kv_cache, idle_at=idle_at))
            detail += f", KV cache {cache:.0%}"
        return EngineLoad(pressure, detail)
