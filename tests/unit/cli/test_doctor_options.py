"""What the doctor finds in options of Celery's, in priorities and in beat's schedule."""

from __future__ import annotations

import time

import pytest
from kombu import Queue
from kombu.common import QoS

from celery_fair import Fair
from celery_fair.doctor import Replies
from celery_fair.doctor.results import result_findings
from tests.unit.cli.conftest import add_task
from tests.unit.cli.replies import kind, report
from tests.unit.cli.test_doctor_static import AMQP, REDIS, find, ids

pytestmark = pytest.mark.filterwarnings(
    r"ignore:\s*The '(queue|priority)' task attribute is deprecated"
)

BATCH = {"kinds": {"*": "batch"}}
DEFAULT = {"kinds": {"*": "interactive"}}


# F013


def test_a_batch_task_in_a_queue_that_nobody_mapped_is_found(make_app):
    app = make_app(fair=BATCH)
    add_task(app, "shop.report", queue="reports")
    finding = find(app, "F013")
    assert finding.what == "shop.report is batch, but its queue 'reports' is mapped to no kind"
    assert 'queues={"batch": […, "reports"]}' in finding.cure


@pytest.mark.parametrize(
    "fair",
    [DEFAULT, {**BATCH, "default_kind": "batch"}, {**BATCH, "queues": {"batch": ["reports"]}}],
)
def test_a_queue_of_the_default_kind_needs_no_mapping(make_app, fair):
    app = make_app(fair=fair)
    add_task(app, "shop.report", queue="reports")
    assert ids(app) == []


# beat


def schedule(task="shop.nightly", **options):
    return {"beat_schedule": {"nightly": {"task": task, "schedule": 60, "options": options}}}


def test_an_entry_of_beat_whose_kind_nobody_said_is_found(make_app):
    assert find(make_app(**schedule()), "F001").what == "1 task has no kind: beat's nightly"


@pytest.mark.parametrize("options", [{"kind": "batch"}, {"queue": "celery.batch"}])
def test_an_entry_says_its_kind_by_an_option_or_by_its_queue(make_app, options):
    assert ids(make_app(**schedule(**options))) == []


def test_a_glob_or_a_registered_task_says_it_for_beat_too(make_app):
    assert ids(make_app(fair=DEFAULT, **schedule())) == []
    assert ids(make_app(**schedule("celery.backend_cleanup"))) == []
    finding = find(make_app(tasks=["shop.nightly"], **schedule()), "F001")
    assert finding.subjects == ("shop.nightly",)


def test_an_entry_into_the_queue_of_the_other_kind_is_found(make_app):
    app = make_app(fair=BATCH, **schedule(queue="celery"))
    assert "beat's nightly is batch, but its queue 'celery'" in find(app, "F002").what


def test_an_entry_into_a_queue_that_nobody_mapped_is_found(make_app):
    assert ids(make_app(fair=BATCH, **schedule(queue=Queue("reports")))) == ["F013"]


def test_an_entry_with_a_kind_that_does_not_exist_is_found(make_app):
    finding = find(make_app(fair=BATCH, **schedule(kind="bulk")), "F010")
    assert finding.subjects == ("beat's nightly",)


# F014, F015


def with_priority(make_app, broker, priority, **conf):
    app = make_app(broker, fair=DEFAULT, **conf)
    add_task(app, "shop.urgent", priority=priority)
    return app


def test_a_high_number_on_redis_goes_last(make_app):
    finding = find(with_priority(make_app, REDIS, 9), "F014")
    assert finding.what == "on Redis these go behind all without a priority: shop.urgent (9)"
    assert finding.severity == "info"


@pytest.mark.parametrize("priority", [None, 0, 2])
def test_a_number_in_the_first_step_is_as_good_as_none(make_app, priority):
    assert ids(with_priority(make_app, REDIS, priority)) == []


def test_the_steps_are_those_of_the_app(make_app):
    options = {"broker_transport_options": {"priority_steps": [0, 2, 4]}}
    assert ids(with_priority(make_app, REDIS, 2, **options)) == ["F014"]


def test_rabbitmq_needs_a_queue_with_priorities(make_app):
    finding = find(with_priority(make_app, AMQP, 9), "F014")
    assert finding.what == "RabbitMQ ignores the priority of shop.urgent"
    assert ids(with_priority(make_app, AMQP, 9, task_queue_max_priority=10)) == []
    assert ids(with_priority(make_app, AMQP, None)) == []


def test_a_route_may_say_the_priority(make_app):
    routes = {"task_routes": {"shop.*": {"priority": 9}}}
    assert ids(make_app(REDIS, fair=DEFAULT, tasks=["shop.urgent"], **routes)) == ["F014"]


def test_the_apps_default_priority_is_meant_too(make_app):
    assert ids(make_app(AMQP, fair=DEFAULT, tasks=["a"], task_default_priority=5)) == ["F014"]


@pytest.mark.parametrize("strategy", ["priority", "sorted"])
def test_a_strict_order_among_the_queues_of_a_kind_is_worth_a_note(make_app, strategy):
    options = {"broker_transport_options": {"queue_order_strategy": strategy}}
    app = make_app(REDIS, fair={"queues": {"batch": ["imports", "reports"]}}, **options)
    assert "batch has the queues imports, reports" in find(app, "F015").what
    assert ids(make_app(REDIS, **options)) == []


# F016 to F021


@pytest.mark.parametrize(
    ("id", "conf"),
    [
        ("F016", {"task_always_eager": True}),
        ("F017", {"worker_enable_remote_control": False}),
        ("F018", {"result_backend": "redis://127.0.0.1:1/0", "result_expires": None}),
        ("F018", {"result_backend": "redis://127.0.0.1:1/0", "result_expires": 0}),
    ],
)
def test_an_option_that_takes_something_away_is_found(make_app, id, conf):
    assert ids(make_app(REDIS, **conf)) == [id]


@pytest.mark.parametrize(
    "conf",
    [
        {"result_backend": "redis://127.0.0.1:1/0"},
        {"result_expires": None},
        {"result_backend": "rpc://", "result_expires": None},
        {
            "result_backend": "redis://127.0.0.1:1/0",
            "result_expires": None,
            "task_ignore_result": True,
        },
    ],
)
def test_results_that_go_away_or_are_never_kept_are_in_order(make_app, conf):
    assert ids(make_app(REDIS, **conf)) == []


def test_no_prefetch_limit_is_found_where_nothing_else_limits(make_app):
    app = make_app(fair=DEFAULT, worker_prefetch_multiplier=0)
    assert ids(app) == []
    add_task(app, "shop.limited", rate_limit="6/m")
    assert find(app, "F019").subjects == ("shop.limited",)
    assert ids(make_app(fair={"mode": "observe"}, worker_prefetch_multiplier=0)) == ["F019"]


def test_what_narrows_celerys_window_matters_in_observe_mode_only(make_app):
    for conf in (
        {"worker_eta_task_limit": 10},
        {"worker_disable_prefetch": True, "worker_pool": "threads"},
    ):
        assert ids(make_app(REDIS, **conf)) == []
        assert ids(make_app(REDIS, fair={"mode": "observe"}, **conf)) == ["F020"]


def test_the_window_of_kombu_shrinks_for_good_beyond_the_limit_of_eta_tasks():
    """What F020 says of ``worker_eta_task_limit``; were it no longer so, it should be silent."""
    qos = QoS(lambda prefetch_count: None, 8, max_prefetch=10)
    for _ in range(30):
        qos.increment_eventually()
    for _ in range(30):
        qos.decrement_eventually()
    assert qos.value == 1


def test_deduplication_without_a_redis_is_found(make_app):
    fair = {"deduplicate_seconds": 60.0}
    finding = find(make_app(AMQP, fair=fair), "F021")
    assert "expected a Redis to keep state in, got none" in finding.what
    assert ids(make_app(REDIS, fair=fair)) == []
    assert ids(make_app(AMQP, fair={**fair, "state_url": "redis://127.0.0.1:1/1"})) == []


def test_job_tasks_without_a_redis_are_found(make_app):
    app = make_app(AMQP)
    add_task(app, "shop.summarize", fair_job_by="item")
    finding = find(app, "F021")
    assert finding.what == (
        "jobs: expected a Redis to keep state in, got none "
        "(set state_url, as in 'redis://host:6379/1')"
    )
    app.conf.task_always_eager = True
    assert "F021" not in ids(app)


# F129


def finished(number, seconds=100.0):
    part = kind("celery", finished={"succeeded": number})
    return report(part, kind("celery.batch", finished={}), started_at=time.time() - seconds)


def test_a_great_many_results_are_worth_a_note(make_app):
    def look(number, **conf):
        fair = Fair.of(make_app(REDIS, **{"result_backend": "redis://127.0.0.1:1/0", **conf}))
        found = result_findings(fair, Replies({"w1": finished(number)}, {}))
        return [one.what for one in found if one.id == "F129"]

    (what,) = look(2000)  # 20 a second, for a day
    assert what.startswith("20 tasks a second, each result kept for 24.0 h: about 1.7 million")
    assert look(500) == []
    assert look(2000, result_expires=60) == []
    assert look(2000, task_ignore_result=True) == []
    assert look(2000, result_backend="rpc://") == []
