"""What the doctor finds at the broker, and between workers that should be alike."""

from __future__ import annotations

import kombu
import pytest

from celery_fair import Fair
from celery_fair.doctor import Replies, live_findings
from celery_fair.doctor.asking import _configured, ask_broker
from celery_fair.doctor.stranded import known_queues
from celery_fair.sharding.names import is_shard, shards_of
from tests.brokers.process import free_port
from tests.unit.cli.conftest import add_task
from tests.unit.cli.replies import kind, report
from tests.unit.cli.test_doctor_waits import checkup

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*The 'queue' task attribute is deprecated")

BOTH = frozenset({"celery", "celery.batch", "celery.front", "celery.batch.front"})
REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
def app(make_app):
    return make_app(REDIS)


@pytest.fixture
def look(app):
    """``look(waiting=…, redis=…)``: findings by id, of one worker in order unless told."""

    def look(reports=None, queues=None, stats=None, **more):
        reports = {"w1": report()} if reports is None else reports
        consumed = dict.fromkeys(reports, BOTH) if queues is None else queues
        replies = Replies(reports, consumed, stats or {}, **more)
        return {finding.id: finding for finding in live_findings(Fair.of(app), replies)}

    return look


# queues


def test_messages_in_a_queue_that_nobody_consumes_are_found(look):
    found = look(waiting={"celery": 9, "reports": 1234, "else": 0})
    assert found.keys() == {"F118"}
    assert found["F118"].what == "No worker that answers consumes what waits: 1234 in reports"


def test_a_consumer_that_the_broker_knows_is_one_though_no_worker_answers_for_it(look):
    queues = {"w1": frozenset({"celery", "celery.front"})}
    attended = frozenset({"celery.batch", "reports"})
    assert look(queues=queues, waiting={"reports": 5}, attended=attended) == {}


def test_an_orphaned_front_says_what_to_start(look):
    queues = {"old": frozenset({"celery", "celery.batch"})}
    found = look(queues=queues, waiting={"celery.batch.front": 3})
    assert "worker with celery-fair on celery.batch" in found["F118"].cure
    assert look(waiting={"celery.batch.front": 3}) == {}


def test_a_queue_that_is_only_called_a_front_is_to_be_consumed_itself(look):
    cure = look(waiting={"shop.front": 3})["F118"].cure
    assert "takes the front first" not in cure


def test_what_waits_in_a_lane_without_a_consumer_is_said_there(look):
    found = look(queues={"w1": frozenset({"celery"})}, waiting={"celery.batch": 7})
    assert found.keys() == {"F103"}
    assert found["F103"].what == "No worker consumes celery.batch (batch), where 7 wait"


def test_the_queues_that_are_counted_are_those_the_app_names(app):
    app.conf.beat_schedule = {"n": {"task": "x", "schedule": 1, "options": {"queue": "nightly"}}}
    add_task(app, "shop.report", queue="reports")
    known = {queue for queue in known_queues(Fair.of(app)) if not is_shard(queue)}
    assert known == BOTH | {"nightly", "reports"}


def test_what_is_left_in_shards_that_nobody_knows_any_more_is_found(app, look):
    assert set(shards_of("celery.batch", 64)) <= set(known_queues(Fair.of(app)))
    queues = {"w1": frozenset({"celery", "celery.batch"})}
    found = look(queues=queues, waiting={"celery.batch.shard-03": 2, "celery.batch.shard-11": 1})
    assert "know 12 of batch_shards until they are empty" in found["F118"].cure


def test_workers_with_fewer_shards_than_publishers_are_found(app, look):
    old = Fair.of(app)
    old.uninstall()
    Fair(app, batch_shards=8)
    fewer = report(settings={"batch_shards": 4})
    found = look({"w1": fewer, "w2": report()})
    assert found["F135"].what == "batch_shards is 8 here, and 4 at the most on w1, w2"
    assert "F135" not in look({"w1": fewer, "w2": report(settings={"batch_shards": 16})})


def test_a_queue_with_two_kinds_is_found(look):
    other = report(kind("celery", "reports"), kind("celery.batch"))
    ours = report(kind("celery"), kind("celery.batch", "reports"))
    found = look({"w1": ours, "w2": other})
    assert found["F119"].what == "Two kinds in one queue: reports (interactive on w2, batch on w1)"
    assert look({"w1": ours, "w2": ours}) == {}


def test_a_worker_that_was_not_heard_of_is_not_called_a_plain_one(look):
    queues = {"w1": BOTH, "busy": BOTH}
    assert look(queues=queues).keys() == {"F104"}
    assert look(queues=queues, unheard=frozenset({"busy"})) == {}


def test_a_paused_queue_is_not_one_without_a_consumer(look):
    pause = {"kind": "batch", "queue": "celery.batch", "by": "ann", "at": 0}
    steering = {"version": "1", "paused": [pause], "draining": None, "refused": {}}
    reports = {"w1": report(steering=steering)}
    queues = {"w1": frozenset({"celery", "celery.front"})}
    waiting = {"celery.batch": 5, "celery.batch.front": 1}
    assert look(reports, queues, waiting=waiting).keys() == {"F127"}


# Redis


def redis(**info):
    return {"redis_version": "7.0.15", "redis_mode": "standalone", "saves": True} | {
        "maxmemory": 100 * 2**20, "used_memory": 2**20, "maxmemory_policy": "noeviction",
    } | info  # fmt: skip


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_redis_that_evicts_is_found(look, policy):
    finding = look(redis=redis(maxmemory_policy=policy))["F120"]
    assert finding.severity == "error"
    assert finding.what == f"maxmemory-policy is {policy} (1 MB of 100 MB are used)"
    assert look(redis=redis(maxmemory_policy=policy, maxmemory=0))["F120"].severity == "warning"


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_redis_that_evicts_no_queue_is_in_order(look, policy):
    assert look(redis=redis(maxmemory_policy=policy)) == {}


def test_a_redis_that_may_evict_jobs_is_found(app, look):
    volatile = redis(maxmemory_policy="volatile-lru", run_id="a")
    assert look(redis=volatile, state=None) == {}
    add_task(app, "shop.summarize", fair_job_by="item")
    finding = look(redis=volatile, state=volatile)["F131"]
    assert finding.severity == "error"
    assert finding.what == "maxmemory-policy is volatile-lru where jobs have their state"
    assert look(state=redis(maxmemory_policy="volatile-ttl", maxmemory=0))["F131"].severity == (
        "warning"
    )
    assert look(state=redis()) == {}


def test_a_redis_that_evicts_messages_and_jobs_is_one_finding_and_two_redis_are_two(app, look):
    add_task(app, "shop.summarize", fair_job_by="item")
    evicts = redis(maxmemory_policy="allkeys-lru", run_id="a")
    assert look(redis=evicts, state=evicts).keys() == {"F120"}
    assert look(redis=evicts, state={**evicts, "run_id": "b"}).keys() == {"F120", "F131"}


def test_a_redis_that_is_nearly_full_is_found(look):
    assert "uses 90 MB of 100 MB" in look(redis=redis(used_memory=90 * 2**20))["F121"].what
    assert look(redis=redis(used_memory=90 * 2**20, maxmemory=0)) == {}


def test_a_redis_that_saves_nothing_is_worth_a_note_if_it_is_known(look):
    assert look(redis=redis(saves=False))["F122"].severity == "info"
    assert look(redis=redis(saves=None)) == {}


def test_a_cluster_or_an_old_redis_is_found(look, monkeypatch):
    assert "cluster" in look(redis=redis(redis_mode="cluster"))["F123"].what
    monkeypatch.setattr(kombu, "VERSION", (5, 7, 0))
    assert look(redis=redis(redis_version="6.0.16"))["F123"].what == "The broker is Redis 6.0.16"
    assert look(redis=redis(redis_version="6.2.0")) == {}
    monkeypatch.setattr(kombu, "VERSION", (5, 5, 2))
    assert look(redis=redis(redis_version="6.0.16")) == {}


def test_a_redis_that_closes_idle_connections_hurts_an_older_kombu(look, monkeypatch):
    monkeypatch.setattr(kombu, "VERSION", (5, 6, 0))
    assert "idle for 300 s" in look(redis=redis(timeout=300))["F130"].what
    assert look(redis=redis(timeout=0)) == {}
    monkeypatch.setattr(kombu, "VERSION", (5, 7, 0))
    assert look(redis=redis(timeout=300)) == {}


def test_a_redis_that_refuses_config_is_asked_nothing_more():
    class Managed:
        def config_get(self, name):
            raise RuntimeError("unknown command 'CONFIG'")

    assert _configured(Managed(), "save") is None


def test_another_broker_has_no_such_finding(look):
    assert look(redis=None) == {}


# asking the broker


def test_a_broker_that_cannot_be_asked_is_no_exception(make_app):
    lost = ask_broker(Fair.of(make_app(f"redis://127.0.0.1:{free_port()}/0")))
    assert (lost.waiting, lost.redis) == ({}, None)
    assert [each.partition(" (")[0] for each in lost.unchecked] == ["how much waits", "Redis"]


def test_a_transport_that_cannot_be_counted_has_no_counts(make_app):
    assert ask_broker(Fair.of(make_app("sqs://"))).waiting == {}


def test_what_was_not_checked_is_one_note(look):
    found = look(unchecked=("Redis (ResponseError: no)", "how much waits (TimeoutError: 2 s)"))
    assert found["F199"].severity == "info"
    assert "ResponseError: no" in found["F199"].what


# between workers


def test_other_versions_of_celery_are_found(look):
    reports = {"w1": report(), "w2": report()}
    found = look(reports, checkups={"w1": checkup(), "w2": checkup(celery="5.5.0")},
                 asked=(100, 101))  # fmt: skip
    assert found["F106"].what == "celery is 5.7.0 on w1, 5.5.0 on w2"
    assert look(reports, checkups={"w1": checkup(), "w2": checkup()}, asked=(100, 101)) == {}


def test_other_transport_options_are_found(app, look):
    said = {"w1": checkup(options={"visibility_timeout": 60})}
    found = look(checkups=said, asked=(100, 101))
    assert found["F124"].what == (
        "broker_transport_options are visibility_timeout=60 on w1, and as kombu's here"
    )
    app.conf.broker_transport_options = {"visibility_timeout": 60, "max_retries": 3}
    assert look(checkups=said, asked=(100, 101)) == {}


def plain_stats(pool="prefork", autoscaler=None):
    return {"pool": {"implementation": f"celery.concurrency.{pool}:TaskPool"}} | (
        {"autoscaler": autoscaler} if autoscaler else {}
    )


@pytest.mark.parametrize(
    ("conf", "stats", "word"),
    [
        ({"worker_eta_task_limit": 10}, plain_stats(), "worker_eta_task_limit=10"),
        ({"worker_disable_prefetch": True}, plain_stats("thread"), "worker_disable_prefetch"),
        (
            {"worker_prefetch_multiplier": 1},
            plain_stats(autoscaler={"max": 8, "min": 2}),
            "worker_enable_prefetch_count_reduction",
        ),
    ],
)
def test_what_narrows_celerys_window_matters_in_plain_and_observing_workers(
    app, look, conf, stats, word
):
    add_task(app, "shop.late", acks_late=True)
    app.conf.update(conf)
    assert look(stats={"w1": stats}) == {}
    found = look({"w1": report(mode="observe")}, stats={"w1": stats})
    assert word in found["F020"].what
    found = look(queues={"w1": BOTH, "old": BOTH}, stats={"old": stats})
    assert found.keys() == {"F020", "F104"}
    assert found["F020"].subjects == ("old",)
