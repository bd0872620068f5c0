"""Tasks of two kinds under celery-fair and OpenTelemetry's Celery instrumentation.

TRACED says when the instrumentation is connected: ``before`` the Fair, ``after`` it, or in each
``process`` of the pool, as its documentation has it. Spans go to the file SPANS, a line each.
"""

from __future__ import annotations

import os

from celery import Celery, signals
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from celery_fair import Fair
from tests.brokers.broker import Broker
from tests.nodes.journal import recorded


class FileExporter(SpanExporter):
    """A line of JSON each, whichever process it comes from."""

    def export(self, spans):
        file = os.open(os.environ["SPANS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for span in spans:
            os.write(file, span.to_json(indent=None).encode() + b"\n")
        os.close(file)
        return SpanExportResult.SUCCESS


def instrument(**_):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter()))
    CeleryInstrumentor().instrument(tracer_provider=provider)


def make_app(broker: Broker, traced: str) -> Celery:
    app = Celery("traced")
    app.conf.update(broker.conf(), broker_connection_retry_on_startup=True)
    if traced == "before":
        instrument()
    Fair(app, kinds={"i.*": "interactive", "b.*": "batch"})
    if traced == "after":
        instrument()
    if traced == "process":
        signals.worker_process_init.connect(instrument, weak=False)

    @app.task(name="i.answer", bind=True)
    def answer(self, label):
        with recorded(self, label):
            pass

    @app.task(name="child", bind=True)
    def child(self, label):
        with recorded(self, label):
            pass

    @app.task(name="b.parent", bind=True)
    def parent(self, label):
        with recorded(self, label):
            child.delay(f"child of {label}")

    return app


if "BROKER" in os.environ:
    app = make_app(Broker.from_environ(os.environ), os.environ["TRACED"])
