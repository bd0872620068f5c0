"""What the doctor finds of what tasks share."""

from __future__ import annotations

from celery_fair import Fair
from celery_fair.doctor import Replies, live_findings, static_findings
from tests.unit.cli.conftest import add_task
from tests.unit.cli.replies import report
from tests.unit.observe.workers import resource

REDIS = "redis://127.0.0.1:1/0"
BOTH = frozenset({"celery", "celery.batch"})


def found(make_app, *, broker=REDIS, tasks=(), **fair):
    app = make_app(broker, fair={"kinds": {"*": "batch"}, **fair})
    for name, options in tasks:
        add_task(app, name, **options)
    return {one.id: one for one in static_findings(app) if one.id != "F011"}


def test_a_resource_that_there_is_not_is_found_by_name(make_app):
    resources = {"openai": {"max_running": 8}}
    uses = {"shop.*": "openia"}
    finding = found(make_app, resources=resources, uses=uses, tasks=[("shop.a", {})])["F023"]
    assert "'openia'; did you mean 'openai'?" in finding.what


def test_a_resource_that_nobody_uses_is_found(make_app):
    resources = {"openai": {"max_running": 8}, "gpu": {"max_running": 1}}
    tasks = [("shop.a", {"uses": "gpu"})]
    assert found(make_app, resources=resources, tasks=tasks)["F024"].subjects == ("openai",)
    uses = {"elsewhere.*": "openai"}
    assert "F024" not in found(make_app, resources=resources, tasks=tasks, uses=uses)


def test_a_task_without_an_estimate_is_found_where_tokens_are_budgeted(make_app):
    resources = {"openai": {"tokens_per_minute": 6000}, "gpu": {"max_running": 1}}
    tasks = [
        ("shop.says", {"uses": "openai", "tokens": 5}),
        ("shop.silent", {"uses": "openai"}),
        ("shop.other", {"uses": "gpu"}),
    ]
    finding = found(make_app, resources=resources, tasks=tasks)["F025"]
    assert finding.subjects == ("shop.silent",)


def test_limits_need_a_redis(make_app):
    broker = "amqp://guest@127.0.0.1:1//"
    assert "resources" in found(make_app, broker=broker, batch_max_running=3)["F021"].what
    assert "F021" not in found(make_app, batch_max_running=3)


def live(make_app, **changes):
    reports = {"w1": report(**changes)}
    replies = Replies(reports, {"w1": BOTH}, {})
    return {one.id: one for one in live_findings(Fair.of(make_app()), replies)}


def of(*resources):
    return {"set": True, "unknown": False, "age_seconds": 1.0, "of": resources, "left_out": 0}


def test_more_places_than_slots_are_found(make_app):
    wide, narrow = resource(max_running=8), resource("gpu", max_running=7)
    finding = live(make_app, resources=of(wide, narrow, resource("free", max_running=None)))["F133"]
    assert finding.what == "More places than slots: openai (8 places, 8 slots)"


def test_a_probe_that_is_silent_is_found(make_app):
    engine = {"probed": True, "unknown": True, "failing": "OSError: refused"}
    assert "w1 (OSError: refused)" in live(make_app, engine=engine)["F134"].what
    assert live(make_app) == {}
