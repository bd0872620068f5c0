"""A probe of any engine that has a Prometheus metrics endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from celery_fair.engine.fetching import checked_url, fetch, shown
from celery_fair.engine.load import EngineLoad

TIMEOUT_SECONDS = 2.0


class PrometheusLoad:
    """Compares a metric with what is fine.

    ``PrometheusLoad("http://tgi:80/metrics", "tgi_queue_size", full_at=8)``: at 8 the pressure is
    1, at ``idle_at`` it is 0. Of several samples (one a replica, a model) those with ``labels``
    count, put together by ``of``: ``sum``, ``max``, ``min``. ``headers`` go with the request.

    Needs ``prometheus_client`` (the extra ``prometheus``). Raises `ValueError` for bad arguments.
    """

    def __init__(
        self,
        url: str,
        metric: str,
        *,
        full_at: float,
        idle_at: float = 0.0,
        labels: Mapping[str, str] | None = None,
        of: Callable[[Iterable[float]], float] = sum,
        timeout_seconds: float = TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not full_at > idle_at:
            raise ValueError(f"expected full_at to be over idle_at={idle_at:g}, got {full_at!r}")
        self._url = checked_url(url)
        self._metric, self._labels, self._of = metric, dict(labels or {}), of
        self._full_at, self._idle_at = full_at, idle_at
        self._timeout_seconds, self._headers = timeout_seconds, dict(headers or {})
        self._parse = _parser()

    def __repr__(self) -> str:
        return f"PrometheusLoad({shown(self._url)!r}, {self._metric!r})"

    def __call__(self) -> EngineLoad:
        """Raises `OSError` where the page can't be had, `LookupError` without such a metric."""
        value = self.value(self.page(), self._metric, of=self._of)
        pressure = scaled(value, full_at=self._full_at, idle_at=self._idle_at)
        return EngineLoad(pressure, f"{self._metric} {value:g} of {self._full_at:g}")

    def page(self) -> str:
        """The text of the endpoint."""
        return fetch(self._url, self._timeout_seconds, self._headers)

    def value(self, page: str, *names: str, of: Callable[[Iterable[float]], float]) -> float:
        """The metric that has the first of these names that there is."""
        for name in names:
            found = [value for labels, value in self._samples(page, name) if self._fits(labels)]
            if found:
                return float(of(found))
        labels = f" with the labels {self._labels}" if self._labels else ""
        raise LookupError(f"{shown(self._url)} has no {names[0]}{labels}")

    def _fits(self, labels: Mapping[str, str]) -> bool:
        return self._labels.items() <= labels.items()

    def _samples(self, page: str, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        # A page has thousands of lines, and the parser takes its time: it gets those that matter.
        lines = [line for line in page.splitlines() if line.startswith(name)]
        for family in self._parse("\n".join(lines) + "\n"):
            for sample in family.samples:
                if sample.name == name:
                    yield sample.labels, sample.value


def scaled(value: float, *, full_at: float, idle_at: float) -> float:
    """The pressure of a value: 1 at ``full_at``, 0 at ``idle_at`` and below."""
    return max((value - idle_at) / (full_at - idle_at), 0.0)


def _parser() -> Callable[[str], Iterable[Any]]:
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise ValueError(
            "a probe of Prometheus metrics needs the package prometheus_client "
            "(pip install 'celery-fair[prometheus]')"
        ) from error
    return text_string_to_metric_families
