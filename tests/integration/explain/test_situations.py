"""Where a task is and why it waits, in situations that are put in on real workers.

Those that need an odd set-up are in ``tests/unit/cli/test_explained.py``.
"""

from __future__ import annotations

import re
import time

import pytest

from celery_fair.policy.waiting import Reason
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import cut_workers
from tests.nodes.worker import WorkerProcess

LATER = 600.0


def reasons(found):
    return [wait.reason for wait in found.waits]


# on Redis, where the broker can be looked at


def test_a_task_that_runs(stage):
    (id,) = stage.run("i")
    found = stage.explain(id)
    assert (found.place.value, found.worker) == ("running", stage.worker.hostname)
    assert found.waits == []
    assert found.task["task"] == "i.until"


def test_batch_waits_as_the_last_slot_is_kept(stage):
    stage.run("b")
    found = stage.wait(stage.send("b.until"), Reason.RESERVE)
    assert "1 of 2 running (0 interactive, 1 batch)" in found.waits[0].text
    assert found.task["nth"] == 1


def test_others_of_its_kind_come_first_at_the_broker(stage):
    stage.run("b")
    for _ in range(6):  # the worker may hold one or two of them
        last = stage.send("b.until")
    found = stage.wait(last, Reason.RESERVE, place="broker")
    assert reasons(found) == [Reason.RESERVE, Reason.IN_LINE]
    assert found.task["nth"] >= 4
    assert found.waits[1].text == f"{found.task['nth'] - 1} before it in celery.batch"


def test_an_interactive_task_waits_for_a_slot(stage):
    stage.run("i", "i")
    found = stage.wait(stage.send("i.until"), Reason.SLOTS_TAKEN)
    assert "2 of 2 running (2 interactive, 0 batch)" in found.waits[0].text


def test_an_interactive_task_waits_for_batch_that_is_owed(stage):
    stage.run("i", "i")
    stage.send("b.until")
    found = stage.wait(stage.send("i.until"), Reason.BATCH_OWED)
    assert "2 of 2 running (2 interactive, 0 batch)" in found.waits[0].text


def test_batch_waits_for_a_gate_that_protects(stage):
    stage.run("b", "i")
    stage.send("i.until")
    found = stage.wait(stage.send("b.until"), Reason.GATE_PROTECTED)
    assert "an interactive task has waited longer than 0.3 s" in found.waits[0].text
    assert "batch has 1 of the 1 it may have" in found.waits[0].text


def test_the_front_of_its_queue_comes_first(stage):
    stage.run("b")
    for _ in range(4):  # the worker may hold one or two of them
        stage.send("b.until", queue="celery.batch.front")
    found = stage.wait(stage.send("b.until"), Reason.RESERVE, place="broker")
    assert reasons(found) == [Reason.RESERVE, Reason.FRONT_FIRST]
    assert found.waits[1].text.endswith(" in the front of its queue first")


def test_its_time_has_not_come(stage):
    found = stage.wait(stage.send("i.sleep", countdown=LATER), Reason.ETA, place="scheduled")
    assert found.task["eta"] == pytest.approx(time.time() + LATER, abs=10)
    assert "in 10 min" in found.waits[0].text
    assert found.no_estimate == "not before its time"


def test_its_time_has_not_come_and_it_is_still_at_the_broker(stage):
    stage.run("b")
    stage.send("b.until")
    found = stage.wait(stage.send("b.sleep", countdown=LATER), Reason.ETA, place="broker")
    assert Reason.IN_LINE in reasons(found)


def test_it_is_to_be_retried(stage):
    id = stage.send("i.retrying", "a", 1, LATER)
    found = stage.wait(id, Reason.ETA, place="scheduled")
    assert [one["outcome"] for one in found.task["before"]] == ["retried"]


def test_no_worker_consumes_its_queue(stage):
    found = stage.wait(stage.send("i.sleep", queue="lonely"), Reason.NO_CONSUMER, place="broker")
    assert found.no_estimate == "no worker consumes its queue"


def test_its_kind_is_paused(stage):
    with stage.ordered("fair_pause", "fair_resume", "kind", kind="batch"):
        found = stage.wait(stage.send("b.sleep"), Reason.PAUSED, place="broker")
        assert found.waits[0].text.startswith("batch was paused by celery control")
        assert found.no_estimate == "it is paused"


def test_its_queue_is_paused(stage):
    queue = "celery.batch"
    with stage.ordered("fair_pause", "fair_resume", "kind", "queue", kind="batch", queue=queue):
        found = stage.wait(stage.send("b.sleep"), Reason.PAUSED, place="broker")
        assert found.waits[0].text.startswith("celery.batch was paused by celery control")


def test_its_worker_is_being_emptied(stage):
    with stage.ordered("fair_drain", "fair_drain"):
        stage.wait(stage.send("b.sleep"), Reason.DRAINING, place="broker")


def test_its_kind_has_all_that_its_ceiling_allows(stage):
    with (
        stage.ordered("fair_set", "fair_set", "setting", setting="reserve", value="0"),
        stage.ordered("fair_set", "fair_set", "setting", setting="batch_max_slots", value="1"),
    ):
        stage.run("b")
        found = stage.wait(stage.send("b.until"), Reason.CEILING)
        assert "it has 1 of 2 slots" in found.waits[0].text


def test_it_has_ended_and_why_it_had_waited_is_known(stage):
    stage.run("i", "i")
    id = stage.send("i.sleep")
    stage.wait(id, Reason.SLOTS_TAKEN)
    stage.let_go_after(0.6)
    found = stage.wait(id, place="ended")
    assert found.task["outcome"] == "succeeded"
    waited = found.task["waited"]
    assert next(iter(waited["by"])) == "slots_taken"
    assert waited["by"]["slots_taken"] >= 0.3 * waited["seconds"]
    assert waited["running_interactive"] == pytest.approx(2.0, abs=0.5)


def test_a_reconnect_takes_nothing_from_the_record_nor_a_queue_that_was_resumed(
    stage, shared_redis
):
    """Celery before 5.7 would not consume that queue over the new connection."""
    id = stage.send("i.sleep")
    stage.wait(id, place="ended")
    cut_workers(shared_redis, stage.broker)
    wait_until(lambda: stage.worker.log_text().count("Connected to") > 1, "a new connection")
    stage.wait(stage.send("b.sleep"), place="ended")
    assert stage.wait(id, place="ended").task["outcome"] == "succeeded"


def test_it_has_failed(stage):
    found = stage.wait(stage.send("failing"), place="ended")
    assert found.task["outcome"] == "failed"


def test_it_was_revoked_while_it_waited(stage):
    stage.run("i", "i")
    id = stage.send("i.sleep")
    stage.wait(id, Reason.SLOTS_TAKEN)
    stage.app.control.revoke(id)
    stage.let_go()
    assert stage.wait(id, place="dropped").task["outcome"] == "revoked"


def test_it_waited_for_too_long(stage):
    stage.run("i", "i")
    id = stage.send("i.sleep", timeout_seconds=0.05)
    stage.wait(id, Reason.SLOTS_TAKEN)
    stage.let_go_after(0.1)
    assert stage.wait(id, place="dropped").task["outcome"] == "timed_out"


def test_nobody_knows_it(stage):
    found = stage.explain("nobody\x1b[31m-knows")
    assert not found.is_found
    assert found.looked[0] == "1 worker that answered"


def test_its_rate_limit(stage):
    stage.send("b.limited")
    found = stage.wait(stage.send("b.limited"), Reason.RATE_LIMIT, place="rate_limited")
    assert "rate limit of 6/m" in found.waits[0].text
    assert found.task["nth"] == 1


def test_a_worker_without_celery_fair_has_it_and_then_dies_with_it(stage, tmp_path, request):
    """Its message is unacknowledged, and no worker that answers has it."""
    url = stage.app.conf.broker_url
    plain = WorkerProcess(
        "tests.apps.plain",
        Broker("redis", url, url),
        tmp_path / "plain.log",
        hostname="p1@redis",
        concurrency=1,
        queues=["celery.plain"],
    )
    with plain:
        plain.start() if not plain.running else None
        ran, waits = (stage.send("late", "a", 60, queue="celery.plain") for _ in range(2))
        both = type(stage)(stage.broker, stage.app, tmp_path, stage.worker)
        both.explain = lambda id: _ask(stage, id, 2)
        assert both.wait(ran, place="running").worker == "p1@redis"
        assert both.wait(waits, Reason.PLAIN_WORKER, place="received").worker == "p1@redis"
        plain.kill()
        found = stage.wait(ran, Reason.NO_ANSWER, place="unacknowledged")
    assert found.task["back_at"] - found.task["delivered_at"] == 3600.0
    with stage.app.pool.acquire() as connection:
        connection.default_channel.client.delete("unacked", "unacked_index")


def _ask(stage, id, workers):
    from celery_fair.cli.asking import Asking

    return Asking(stage.app, 5.0, limit=workers).task(id)


def test_its_worker_only_observes(stage):
    with stage.ordered("fair_set", "fair_set", "setting", setting="mode", value="observe"):
        for name in ("b.until", "b.until"):
            stage.send(name)
        stage.wait(stage.send("b.until"), Reason.OBSERVING, place="received")
        stage.let_go()


# on RabbitMQ, which shows nothing without giving it out


def test_on_rabbitmq_a_task_that_runs(on_rabbit):
    (id,) = on_rabbit.run("b")
    assert on_rabbit.explain(id).place.value == "running"


def test_on_rabbitmq_its_time_has_not_come(on_rabbit):
    on_rabbit.wait(on_rabbit.send("b.sleep", countdown=LATER), Reason.ETA, place="scheduled")


def test_on_rabbitmq_the_place_at_the_broker_is_not_known_and_its_bound_is(on_rabbit):
    on_rabbit.run("b")
    ids = [on_rabbit.send("b.until") for _ in range(6)]
    found = on_rabbit.explain(ids[-1])
    assert not found.is_found
    assert any("RabbitMQ shows no message" in text for text in found.looked), found.looked

    def reason_is_known():
        perhaps = on_rabbit.explain(ids[-1]).perhaps
        return re.match(r"in celery\.batch, where [3-6] wait \(", "".join(perhaps))

    wait_until(reason_is_known, "the bound, and why its kind waits")
