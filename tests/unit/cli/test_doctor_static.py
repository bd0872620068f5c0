"""What the doctor finds in an app alone: each finding where it is due, and where it is not."""

from __future__ import annotations

import pytest
from kombu import Queue

from celery_fair import Fair, fair_task
from celery_fair.doctor import app_findings, static_findings
from tests.unit.cli.conftest import add_task

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*The 'queue' task attribute is deprecated")

AMQP = "amqp://guest@127.0.0.1:1//"
REDIS = "redis://127.0.0.1:1/0"


def ids(app) -> list[str]:
    """All but the advice that every app gets until it has set both timeouts."""
    return [finding.id for finding in static_findings(app) if finding.id != "F011"]


def find(app, id):
    (finding,) = (finding for finding in static_findings(app) if finding.id == id)
    return finding


def test_an_app_in_order_has_no_finding(make_app):
    assert ids(make_app(REDIS)) == []
    assert ids(make_app(AMQP)) == []


# F001


def test_tasks_without_a_kind_are_named_in_one_finding(make_app):
    finding = find(make_app(tasks=["shop.a", "shop.b"]), "F001")
    assert finding.what == "2 tasks have no kind: shop.a, shop.b"
    assert finding.subjects == ("shop.a", "shop.b")


def test_a_sentence_names_a_few_of_many_tasks_and_the_subjects_all(make_app):
    finding = find(make_app(tasks=[f"shop.t{number}" for number in range(9)]), "F001")
    assert finding.what.endswith("shop.t4 and 4 more")
    assert len(finding.subjects) == 9


def test_a_glob_is_a_classification(make_app):
    assert ids(make_app(tasks=["shop.a"], fair={"kinds": {"*": "interactive"}})) == []


def test_a_decorator_is_a_classification(make_app):
    app = make_app()

    @fair_task(kind="batch", name="shop.summarize")
    def summarize():
        pass

    app.finalize()
    assert "shop.summarize" in app.tasks
    assert ids(app) == []


def test_a_mapped_queue_is_a_classification(make_app):
    app = make_app(fair={"queues": {"batch": ["bulk"]}}, task_routes={"shop.routed": "bulk"})
    add_task(app, "shop.named", queue="bulk")
    add_task(app, "shop.routed")
    assert ids(app) == []


def test_a_router_that_fails_leaves_the_task_unclassified(make_app):
    def needs_arguments(name, args, kwargs, options, task=None):
        return {"queue": args[0]}

    assert ids(make_app(tasks=["shop.a"], task_routes=(needs_arguments,))) == ["F001"]


def test_the_probe_of_the_bench_needs_no_kind(make_app):
    assert ids(make_app(tasks=["celery_fair.probe"])) == []


def test_celerys_own_tasks_need_no_kind(make_app):
    app = make_app()
    app.finalize()
    assert "celery.chord_unlock" in app.tasks
    assert ids(app) == []


# F002


def test_a_decorators_queue_of_the_other_kind_is_found(make_app):
    app = make_app(fair={"kinds": {"shop.report": "batch"}})
    add_task(app, "shop.report", queue="celery")
    assert (
        "shop.report is batch, but its queue 'celery' is mapped to interactive"
        in find(app, "F002").what
    )


def test_a_route_to_the_other_kinds_queue_is_found(make_app):
    app = make_app(
        fair={"kinds": {"shop.report": "batch"}}, task_routes={"shop.*": {"queue": "celery"}}
    )
    add_task(app, "shop.report")
    assert ids(app) == ["F002"]


def test_a_queue_of_the_tasks_kind_is_in_order(make_app):
    app = make_app(fair={"kinds": {"shop.report": "batch"}})
    add_task(app, "shop.report", queue="celery.batch")
    assert ids(app) == []


# F003


def with_limit(make_app, broker, seconds, late=True, **conf):
    conf.setdefault("fair", {"kinds": {"*": "batch"}})
    app = make_app(broker, **conf)
    add_task(app, "shop.long", time_limit=seconds, acks_late=late)
    return app


def test_a_late_task_that_outlives_the_visibility_timeout_is_found(make_app):
    app = with_limit(make_app, REDIS, 20, broker_transport_options={"visibility_timeout": 60})
    assert ids(app) == []
    app = with_limit(make_app, REDIS, 90, broker_transport_options={"visibility_timeout": 60})
    finding = find(app, "F003")
    assert finding.severity == "warning"
    assert "90 s" in finding.what
    assert "visibility_timeout of 60 s" in finding.what
    assert "shop.long" in finding.what


def test_the_time_held_counts_too(make_app):
    options = {"visibility_timeout": 100}
    assert ids(with_limit(make_app, REDIS, 69, broker_transport_options=options)) == []
    assert ids(with_limit(make_app, REDIS, 70, broker_transport_options=options)) == ["F003"]


def test_redis_has_an_hour_unless_told_otherwise(make_app):
    assert ids(with_limit(make_app, REDIS, 3500)) == []
    assert ids(with_limit(make_app, REDIS, 3600)) == ["F003"]


def test_the_apps_time_limit_is_meant_too(make_app):
    assert ids(with_limit(make_app, REDIS, None, task_time_limit=3600)) == ["F003"]


def test_a_kinds_time_limit_is_meant_too_and_the_tasks_own_wins(make_app):
    fair = {"default_kind": "batch", "kinds": {"*": "batch"}, "batch_time_limit": 3600}
    assert ids(with_limit(make_app, REDIS, None, fair=fair)) == ["F003"]
    assert ids(with_limit(make_app, REDIS, 60, fair=fair)) == []


def test_no_time_limit_is_no_finding(make_app):
    assert ids(with_limit(make_app, REDIS, None)) == []


def test_a_task_that_acknowledges_early_is_worth_a_note(make_app):
    assert find(with_limit(make_app, REDIS, 3600, late=False), "F003").severity == "info"
    assert ids(with_limit(make_app, REDIS, 3590, late=False)) == []


def test_rabbitmq_has_half_an_hour_unless_a_queue_says_otherwise(make_app):
    assert ids(with_limit(make_app, AMQP, 1700)) == []
    finding = find(with_limit(make_app, AMQP, 1800), "F003")
    assert "consumer_timeout of 1800 s (RabbitMQ's default" in finding.what
    longer = Queue("celery.batch", queue_arguments={"x-consumer-timeout": 7_200_000})
    assert ids(with_limit(make_app, AMQP, 1800, task_queues=[Queue("celery"), longer])) == []


def test_a_transport_without_such_a_limit_has_no_finding(make_app):
    assert ids(with_limit(make_app, "memory://", 100_000)) == []


# F004


def test_a_visibility_timeout_must_leave_room_for_holding(make_app):
    def app(timeout, hold):
        return make_app(
            REDIS,
            fair={"hold_max_seconds": hold},
            broker_transport_options={"visibility_timeout": timeout},
        )

    assert ids(app(60, 30.0)) == []
    finding = find(app(60, 31.0), "F004")
    assert "hold_max_seconds is 31" in finding.what
    assert "set hold_max_seconds to 30 or less" in finding.cure


def test_a_queues_consumer_timeout_must_leave_room_for_holding(make_app):
    short = Queue("celery.batch", queue_arguments={"x-consumer-timeout": 40_000})
    assert ids(make_app(AMQP, task_queues=[Queue("celery"), short])) == ["F004"]


# F005


@pytest.mark.parametrize(
    "declared",
    [
        {"auto_delete": True},
        {"expires": 60.0},
        {"queue_arguments": {"x-expires": 60_000}},
        {"queue_arguments": {"x-single-active-consumer": True}},
    ],
)
def test_a_queue_that_must_keep_its_consumer_is_worth_a_note(make_app, declared):
    queues = [Queue("celery"), Queue("celery.batch", **declared)]
    finding = find(make_app(AMQP, task_queues=queues), "F005")
    assert finding.severity == "info"
    assert finding.subjects == ("celery.batch",)


def test_an_ordinary_or_foreign_queue_may_lose_its_consumer(make_app):
    queues = [Queue("celery"), Queue("celery.batch"), Queue("else", auto_delete=True)]
    assert ids(make_app(AMQP, task_queues=queues)) == []


def test_redis_does_not_delete_queues_for_want_of_a_consumer(make_app):
    assert ids(make_app(REDIS, task_queues=[Queue("celery", auto_delete=True)])) == []


# F006


def test_greenlets_on_rabbitmq_with_heartbeats_are_found(make_app):
    finding = find(make_app(AMQP, worker_pool="gevent", broker_heartbeat=30), "F006")
    assert "gevent pool on RabbitMQ with heartbeats of 30 s" in finding.what


@pytest.mark.parametrize(
    ("broker", "conf"),
    [
        (AMQP, {"worker_pool": "gevent", "broker_heartbeat": 0}),
        (AMQP, {"worker_pool": "threads", "broker_heartbeat": 30}),
        (REDIS, {"worker_pool": "gevent", "broker_heartbeat": 30}),
    ],
)
def test_other_pools_brokers_and_no_heartbeats_are_in_order(make_app, broker, conf):
    assert ids(make_app(broker, **conf)) == []


# F007 to F010


def test_an_app_without_a_fair_has_that_one_finding(make_app):
    assert ids(make_app(install=False, tasks=["shop.a"])) == ["F007"]


def test_a_fair_that_is_switched_off_has_that_one_finding(make_app):
    assert ids(make_app(fair={"enabled": False}, tasks=["shop.a"])) == ["F008"]


def test_bad_settings_are_a_finding_and_no_exception(make_app):
    finding = find(make_app(fair={"batch_share": 2.0}), "F009")
    assert "batch_share" in finding.what


def test_queues_of_both_kinds_are_bad_settings_too(make_app):
    assert ids(make_app(fair={"queues": {"batch": ["celery"]}})) == ["F009"]


def test_a_kind_that_does_not_exist_is_a_finding_and_no_exception(make_app):
    app = make_app()
    add_task(app, "shop.report", fair_kind="bulk")
    finding = find(app, "F010")
    assert "bulk" in finding.what
    assert finding.subjects == ("shop.report",)


# all of them


def test_a_client_library_that_is_missing_is_no_exception(make_app):
    assert ids(make_app("nosuchtransport://")) == []


def test_a_finding_fits_into_one_line_of_a_log(make_app):
    line = find(make_app(tasks=["shop.a"]), "F001").line()
    assert line.startswith("F001: 1 task has no kind: shop.a. ")
    assert "\n" not in line


def test_looking_at_an_app_opens_no_connection(make_app, monkeypatch):
    def connect(self):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("kombu.Connection.connect", connect)
    monkeypatch.setattr("kombu.Connection.channel", connect)
    assert ids(make_app(REDIS, tasks=["shop.a"])) == ["F001"]


# F011


def test_until_both_timeouts_are_set_the_doctor_says_which_are_usual(make_app):
    finding = find(make_app(), "F011")
    assert finding.severity == "info"
    assert finding.cure.startswith(
        "Usual are interactive_timeout_seconds = 3 to 5, batch_timeout_seconds = 600"
    )
    half = find(make_app(fair={"interactive_timeout_seconds": 5}), "F011")
    assert half.what == "batch tasks may wait for ever"


def test_with_both_timeouts_there_is_nothing_to_say(make_app):
    app = make_app(fair={"interactive_timeout_seconds": 5, "batch_timeout_seconds": 600})
    assert static_findings(app) == []


# F012


@pytest.mark.parametrize("pool", ["threads", "eventlet", "solo"])
def test_a_limit_on_a_pool_that_ends_no_task_is_found(make_app, pool):
    finding = find(make_app(worker_pool=pool, fair={"batch_time_limit": 60}), "F012")
    assert finding.what == f"batch_time_limit on the {pool} pool"


def test_without_a_limit_or_on_prefork_nothing_is_found(make_app):
    assert ids(make_app(worker_pool="threads")) == []
    assert ids(make_app(worker_pool="prefork", fair={"batch_time_limit": 60})) == []


# F022


def test_tasks_that_cannot_be_imported_are_found_and_the_others_looked_at(make_app):
    assert "F022" not in [finding.id for finding in app_findings(make_app())]
    app = make_app(tasks=["shop.a"], imports=["nowhere.tasks"])
    found = {finding.id: finding for finding in app_findings(app)}
    assert found["F022"].what == "ModuleNotFoundError: No module named 'nowhere'"
    assert "F001" in found


# as a call


def test_an_apps_findings_can_be_asked_for_in_code(make_app):
    app = make_app(tasks=["shop.a"])
    assert [finding.id for finding in Fair.of(app).findings()] == ["F001", "F011"]


# F199


@pytest.mark.parametrize(
    ("about", "broker", "conf"),
    [
        ("the broker's patience", REDIS, {"broker_transport_options": {"visibility_timeout": "9"}}),
        ("queues", AMQP, {"worker_pool": "gevent", "broker_heartbeat": "10"}),
        ("the broker's patience", REDIS, {"task_time_limit": "60"}),
    ],
)
def test_a_setting_of_a_strange_type_stops_one_check_and_no_worker(make_app, about, broker, conf):
    app = make_app(broker, tasks=["shop.a"], **conf)
    assert ids(app) == ["F001", "F199"]
    assert find(app, "F199").what.startswith(f"Not checked: {about} (")


def test_a_kind_that_is_none_is_one_finding_also_where_a_task_has_a_priority(make_app):
    app = make_app(AMQP, task_default_priority=3)
    add_task(app, "shop.a", fair_kind="bulk")
    assert ids(app) == ["F010", "F014"]


def test_a_url_that_cant_be_read_is_quoted_nowhere(make_app):
    assert "s3cret" not in str(static_findings(make_app("redis://:pa#s3cret@host:1x/0")))
    assert "1x" not in str(static_findings(make_app("redis://host:1x/0")))
