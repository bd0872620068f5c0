"""The table of metrics for Prometheus: a collector that reads the facts when it is asked.

prometheus_client knows the two text formats, their escaping, compression and the HTTP server; its
own counters and their locks are not used, so that nothing is added to the path of a task.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from celery_fair.observe.counts import BOUNDS
from celery_fair.observe.metrics import EXPORTER, METRICS, UNREAD, Metric, Own, Reach
from celery_fair.observe.reading import Buckets, Source, Summed, label

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
BOUND_LABELS: Final = (*map(floatToGoString, BOUNDS), "+Inf")


class FairCollector(Collector):
    """Makes the families of `METRICS` from ``sources()``, which are workers by node name.

    What can't be read of one worker is left out and counted in `UNREAD`; the rest stays.
    """

    def __init__(
        self,
        sources: Callable[[], Mapping[str, Source]],
        reach: Callable[[], Reach] | None = None,
    ) -> None:
        self._sources = sources
        self._reach = reach

    def describe(self) -> Iterable[Family]:
        """All families, empty: so ``/metrics?name[]=…`` finds them."""
        own = EXPORTER if self._reach is not None else ()
        return [_family(metric) for metric in (*METRICS, UNREAD, *own)]

    def collect(self) -> Iterator[Family]:
        sources = {label(name): source for name, source in self._sources().items()}
        unread = dict.fromkeys(sources, 0)
        for metric in METRICS:
            family = _family(metric)
            for worker, source in sources.items():
                try:
                    samples = list(metric.read(source))
                except Exception:
                    unread[worker] += 1
                    continue
                for labels, value in samples:
                    _add(family, (worker, *labels), value)
            yield family
        family = _family(UNREAD)
        for worker, number in unread.items():
            _add(family, (worker,), number)
        yield family
        yield from self._own()

    def _own(self) -> Iterator[Family]:
        if self._reach is None:
            return
        reach = self._reach()
        for metric in EXPORTER:
            family = _family(metric)
            for labels, value in metric.read(reach):
                _add(family, tuple(map(label, labels)), value)
            yield family


def _family(metric: Metric | Own) -> Any:
    labels = metric.labels if isinstance(metric, Own) else ("worker", *metric.labels)
    if metric.type == "info":  # whose labels are given with the value
        return InfoMetricFamily(metric.name.removesuffix("_info"), metric.help, labels=labels)
    return _FAMILIES[metric.type](metric.name, metric.help, labels=labels)


_FAMILIES: Final[Mapping[str, Callable[..., Family]]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
}


def _add(family: Any, labels: tuple[str, ...], value: float | Buckets | Summed) -> None:
    if isinstance(value, Buckets):
        buckets = list(zip(BOUND_LABELS, value.cumulative, strict=True))
        family.add_metric(labels, buckets, value.sum_seconds)
    elif isinstance(value, Summed):
        family.add_metric(labels, value.number, value.sum_seconds)
    elif family.type == "info":
        family.add_metric(labels, {})
    else:
        family.add_metric(labels, value)


def registry_of(collector: Collector) -> CollectorRegistry:
    """A registry of its own: an app may have filled the default one."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class Endpoint(threading.Thread):
    """Serves ``registry`` over HTTP until ``stop``; a port that is taken is tried again and again.

    A thread from the start, since looking the host up may take its time. ``cure`` ends the
    sentence that says once why there is nothing to scrape.
    """

    def __init__(self, registry: CollectorRegistry, host: str, port: int, cure: str) -> None:
        super().__init__(name="celery-fair-metrics", daemon=True)
        self._registry = registry
        self._host, self._port, self._cure = host, port, cure
        self._stopped = threading.Event()
        self._server: Any = None
        self._failed = False

    def run(self) -> None:
        # What this imports must not be half imported when a child is forked.
        generate_latest(self._registry)
        _close_in_children(self)
        while not self._stopped.is_set():
            try:
                self._server, thread = start_http_server(
                    self._port, addr=self._host, registry=self._registry
                )
            except (OSError, ValueError) as error:  # a name may be none that can be looked up
                self._say(error)
                self._stopped.wait(RETRY_SECONDS)
            else:
                self._serve(thread)

    def _say(self, error: Exception) -> None:
        if not self._failed:
            logger.warning(
                "celery-fair: no metrics on port %d of %s (%s): %s. Trying again every %g s.",
                self._port,
                self._host,
                getattr(error, "strerror", None) or error,
                self._cure,
                RETRY_SECONDS,
            )
        self._failed = True

    def _serve(self, thread: threading.Thread) -> None:
        logger.info("celery-fair: metrics on http://%s:%d/metrics", self._host, self._port)
        self._failed = False
        self._stopped.wait()
        self._server.shutdown()
        self._server.server_close()
        thread.join(1.0)

    def stop(self) -> None:
        """Have the port given back, in half a second; the end of a worker doesn't wait for it."""
        self._stopped.set()

    def close_in_child(self) -> None:
        """A forked child has no thread to answer with: it must not keep the port."""
        if self._server is not None:
            self._server.socket.close()


def _close_in_children(endpoint: Endpoint) -> None:
    found = weakref.ref(endpoint)

    def close() -> None:
        living = found()
        if living is not None:
            living.close_in_child()

    os.register_at_fork(after_in_child=close)
