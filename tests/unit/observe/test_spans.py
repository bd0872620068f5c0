"""Attributes on spans, with OpenTelemetry's own Celery instrumentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from celery import Celery, _state, signals
from kombu.transport import memory
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from celery_fair import Fair
from celery_fair.headers import NAME, FairHeader
from celery_fair.observe import spans
from celery_fair.publish import Source

NOW = 1_800_000_000.0


class Traced:
    """Where the spans of a test go."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def attributes(self, name) -> dict[str, object]:
        """Ours, of the one span of that name."""
        (span,) = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return {k: v for k, v in span.attributes.items() if k.startswith("celery_fair.")}

    def everything(self) -> str:
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


@pytest.fixture
def traced():
    return Traced()


@pytest.fixture
def app():
    """A current app, since the instrumentation looks a task up in the current one."""
    before = _state._tls.current_app
    app = Celery("traced", broker="memory://", backend="cache+memory://", set_as_current=True)
    Fair(app, kinds={"report": "batch"})
    for name in ("report", "answer", "else"):
        app.task(name=name, shared=False)(nothing)
    yield app
    app.close()
    _state._tls.current_app = before
    memory.Transport.global_state.clear()
    memory.Channel.queues.clear()


def nothing(*args):
    """A task."""


def _disconnect():
    for signal in (signals.before_task_publish, signals.after_task_publish):
        signal.disconnect(dispatch_uid="celery_fair.spans")
    spans._connect.cache_clear()


@pytest.fixture(params=["ours first", "ours last"])
def instrumented(request, traced):
    """The instrumentation, its receivers connected after ours or before them."""
    _disconnect()
    if request.param == "ours first":
        spans._connect()
    CeleryInstrumentor().instrument(tracer_provider=traced.provider)
    yield
    CeleryInstrumentor().uninstrument()
    _disconnect()


# A publish


@pytest.mark.usefixtures("instrumented")
def test_the_span_of_a_publish_tells_kind_queue_and_what_the_kind_came_from(app, traced):
    app.tasks["report"].delay()
    assert traced.attributes("apply_async/report") == {
        "celery_fair.kind": "batch",
        "celery_fair.kind_source": "task",
        "celery_fair.queue": "celery.batch",
    }


@pytest.mark.usefixtures("instrumented")
@pytest.mark.parametrize(
    ("call", "kind", "source"),
    [
        (lambda app: app.tasks["answer"].delay(), "interactive", "default"),
        (lambda app: app.tasks["answer"].apply_async(kind="batch"), "batch", "call"),
        (lambda app: app.tasks["answer"].apply_async(queue="celery.batch"), "batch", "queue"),
        (lambda app: _in_block(app, Fair.kind), "batch", "block"),
        (lambda app: _in_block(app, Fair.inherit), "batch", "block"),
    ],
)
def test_each_source_of_a_kind_has_its_word(app, traced, call, kind, source):
    call(app)
    found = traced.attributes("apply_async/answer")
    assert (found["celery_fair.kind"], found["celery_fair.kind_source"]) == (kind, source)


def _in_block(app, block):
    with block("batch"):
        app.tasks["answer"].delay()


@pytest.mark.usefixtures("instrumented")
def test_the_span_around_publishes_is_left_alone(app, traced):
    with traced.tracer.start_as_current_span("request"):
        app.tasks["report"].delay()
        app.tasks["answer"].delay()
    assert traced.attributes("request") == {}
    assert traced.attributes("apply_async/report")["celery_fair.kind"] == "batch"
    assert traced.attributes("apply_async/answer")["celery_fair.kind"] == "interactive"


def test_without_the_instrumentation_no_span_is_marked(app, traced):
    with traced.tracer.start_as_current_span("request"):
        app.tasks["report"].delay()
    assert traced.attributes("request") == {}


@pytest.mark.usefixtures("instrumented")
def test_a_publish_inside_of_another_has_its_own_attributes(app, traced):
    @signals.before_task_publish.connect(sender="report")
    def another(**_):
        app.tasks["answer"].delay()

    app.tasks["report"].delay()
    assert traced.attributes("apply_async/report")["celery_fair.kind"] == "batch"
    assert traced.attributes("apply_async/answer")["celery_fair.kind"] == "interactive"


@pytest.mark.usefixtures("instrumented")
def test_what_an_app_without_fair_publishes_inside_is_left_alone(app, traced):
    plain = Celery("plain", broker="memory://", set_as_current=False)

    @signals.before_task_publish.connect(sender="report")
    def another(**_):
        plain.send_task("answer")

    app.tasks["report"].delay()
    plain.close()
    assert traced.attributes("apply_async/report")["celery_fair.kind"] == "batch"
    assert traced.attributes("apply_async/answer") == {}


@pytest.mark.usefixtures("instrumented")
def test_nothing_of_the_user_is_in_them(app, traced):
    app.tasks["report"].apply_async(("s3cret",), request_id="s3cret", tenant="s3cret")
    assert "celery_fair.kind" in traced.everything()
    assert "s3cret" not in traced.everything()


@pytest.mark.usefixtures("instrumented")
def test_a_task_that_the_publisher_does_not_know_has_a_span_without_ours(app, traced):
    with traced.tracer.start_as_current_span("request"):
        app.send_task("elsewhere.task")
    assert traced.attributes("apply_async/elsewhere.task") == {}
    assert traced.attributes("request") == {}


# A run


class Task:
    """As much of a task as has been read of its message."""

    name = "report"

    def __init__(self, queue, header=None):
        headers = {} if header is None else {NAME: header.as_line()}
        self.request = SimpleNamespace(headers=headers, delivery_info={"routing_key": queue})


def run(app, traced, task, now=NOW):
    with traced.tracer.start_as_current_span("run"):
        spans.mark_run(Fair.of(app), task, now)
    return traced.attributes("run")


def test_the_span_of_a_run_tells_kind_queue_and_wait(app, traced):
    header = FairHeader("batch", NOW - 100, NOW - 1.25, "r", "t")
    assert run(app, traced, Task("celery.batch", header)) == {
        "celery_fair.kind": "batch",
        "celery_fair.queue": "celery.batch",
        "celery_fair.wait_seconds": 1.25,
        "celery_fair.kind_inherited": False,
    }


def test_a_child_says_that_it_has_its_parents_kind(app, traced):
    header = FairHeader("batch", NOW, NOW, inherited=True)
    assert run(app, traced, Task("celery.batch", header))["celery_fair.kind_inherited"] is True


def test_a_retry_goes_on_saying_whether_the_kind_was_inherited(app):
    sent = []

    @signals.before_task_publish.connect
    def note(headers, **_):
        sent.append(FairHeader.read(headers))

    for inherited in (True, False):
        first = FairHeader("batch", NOW, NOW, inherited=inherited)
        headers = {NAME: first.as_line()}
        app.send_task("answer", headers=headers, retries=1)
    assert [header.inherited for header in sent] == [True, False]
    assert {header.kind for header in sent} == {"batch"}


def test_a_queue_that_delayed_delivery_has_rewritten_is_not_asked_for_the_kind(app, traced):
    header = FairHeader("batch", NOW, NOW)
    found = run(app, traced, Task("0.0.0.1.celery.batch", header))
    assert found["celery_fair.kind"] == "batch"


def test_a_message_without_a_header_has_the_kind_of_its_queue_and_no_wait(app, traced):
    assert run(app, traced, Task("celery.batch")) == {
        "celery_fair.kind": "batch",
        "celery_fair.queue": "celery.batch",
    }


def test_a_publisher_whose_clock_is_ahead_gives_no_wait_under_0(app, traced):
    found = run(app, traced, Task("celery", FairHeader("interactive", NOW + 9, NOW + 9)))
    assert found["celery_fair.wait_seconds"] == 0.0


def test_where_no_span_is_recorded_nothing_is_read():
    spans.mark_run(None, None, NOW)  # would fail at the first look


def test_a_span_that_fails_harms_no_task(app, traced, monkeypatch, caplog):
    called = []
    monkeypatch.setattr(spans, "active_span", lambda: (_ for _ in ()).throw(RuntimeError("x")))
    with caplog.at_level("DEBUG", "celery_fair.observe.spans"):
        spans.on_task_init(Fair.of(app), lambda *args: called.append(args), "id", Task("celery"))
    assert len(called) == 1
    assert "could not be marked" in caplog.text


def test_a_publish_whose_span_fails_is_sent(app, traced, monkeypatch):
    CeleryInstrumentor().instrument(tracer_provider=traced.provider)
    try:
        monkeypatch.setattr(spans, "_set", lambda *args: 1 / 0)
        assert app.tasks["report"].delay().id
    finally:
        CeleryInstrumentor().uninstrument()
    assert traced.attributes("apply_async/report") == {}


def test_the_docs_name_each_attribute_and_each_source_of_a_kind():
    text = (Path(__file__).parents[3] / "docs" / "logs-and-traces.md").read_text()
    named = set(re.findall(r"`(celery_fair\.\w+)`", text.partition("## Traces")[2]))
    assert named == {
        spans.KIND,
        spans.QUEUE,
        spans.KIND_SOURCE,
        spans.KIND_INHERITED,
        spans.WAIT_SECONDS,
    }
    _, _, table = text.partition("`celery_fair.kind_source` is one of")
    words = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(words) == set(get_args(Source))


# Without OpenTelemetry

PLAIN = """
import sys
from celery import Celery, signals
from celery_fair import Fair
app = Celery("plain", broker="memory://")
Fair(app)
signals.worker_init.send(sender=type("Worker", (), {"app": app}))
@app.task(name="answer")
def answer():
    pass
app.tasks["answer"].delay()
app.tasks["answer"].apply()
print([name for name in sys.modules if name.startswith("opentelemetry")])
print(len(signals.before_task_publish.receivers))
"""


def test_without_opentelemetry_nothing_of_it_is_imported():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["[]", "0"], done.stderr
