"""Spans of real workers, with OpenTelemetry's own Celery instrumentation."""

from __future__ import annotations

import json

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until

APP = "tests.apps.traced"


@pytest.fixture
def run_traced(broker, start_worker, journal, tmp_path):
    """Run a family of tasks by a worker; our attributes of its spans by their names."""

    def run(pool, traced):
        file = tmp_path / "spans.jsonl"
        env = {"TRACED": traced, "SPANS": str(file)}
        start_worker(APP, pool=pool, concurrency=2, env=env)
        app = mixed.make_app(broker)
        headers = {"request_id": "s3cret", "tenant": "s3cret"}
        for label in ("first", "second", "third"):
            app.send_task("i.answer", (label,), **headers)
            app.send_task("b.parent", (label,), kind="batch", **headers)
        app.close()

        def all_there():
            lines = file.read_text().splitlines() if file.exists() else []
            return len(lines) == 12 and lines  # runs of three each, and what parents published

        lines = wait_until(all_there, "12 spans")
        return lines

    return run


@pytest.mark.parametrize(
    ("pool", "traced"),
    [
        ("threads", "before"),
        ("threads", "after"),
        ("prefork", "before"),
        ("prefork", "after"),
        ("prefork", "process"),
        ("solo", "after"),
    ],
)
def test_every_span_has_its_attributes_from_the_first_task_on(run_traced, pool, traced):
    lines = run_traced(pool, traced)
    found = {}
    for span in map(json.loads, lines):
        ours = {k: v for k, v in span["attributes"].items() if k.startswith("celery_fair.")}
        found.setdefault(span["name"], []).append(ours)
    waits = [
        one.pop("celery_fair.wait_seconds")
        for name, spans in found.items()
        for one in spans
        if name.startswith("run/")
    ]
    assert len(waits) == 9
    assert all(0 < wait < 60 for wait in waits)
    batch = {"celery_fair.kind": "batch", "celery_fair.queue": "celery.batch"}
    assert found == {
        "run/i.answer": [
            {
                "celery_fair.kind": "interactive",
                "celery_fair.queue": "celery",
                "celery_fair.kind_inherited": False,
            }
        ]
        * 3,
        "run/b.parent": [{**batch, "celery_fair.kind_inherited": False}] * 3,
        "run/child": [{**batch, "celery_fair.kind_inherited": True}] * 3,
        "apply_async/child": [{**batch, "celery_fair.kind_source": "parent"}] * 3,
    }
    assert "s3cret" not in "".join(lines)
