"""Celery's own tasks and commands behave beside two lanes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from celery import chord
from kombu import Consumer

from tests.nodes.worker import ROOT

LONG_SECONDS = 25.0


@pytest.mark.brokers("rabbitmq")
@pytest.mark.parametrize("unlock_kind", [None, "batch"], ids=["cured", "naive"])
def test_a_chord_ends_though_batch_is_full(site, unlock_kind, tmp_path, refuted):
    """S15: its ``chord_unlock`` must not wait behind bulk; batch itself shows that it would."""
    (tmp_path / "results").mkdir()
    site.use(site.broker.url, f"file://{tmp_path / 'results'}")
    if unlock_kind:
        site.app.conf.task_routes = {"celery.chord_unlock": {"queue": "celery.batch"}}
    site.start(concurrency=2, settings={"batch_max_slots": 1})
    site.block("b.until", "b0")
    site.journal.wait_started("b0")
    for number in range(1, 30):
        site.block("b.until", f"b{number}")
    tasks = site.app.tasks
    chord([tasks["i.sleep"].si(f"i{number}") for number in range(3)])(tasks["i.sleep"].si("body"))
    if unlock_kind:
        refuted(lambda: "body" in site.journal.finished(), seconds=4)
        return
    site.journal.wait_finished("body", timeout=LONG_SECONDS)
    assert site.journal.running() == ["b0"]


@pytest.mark.brokers("redis", "rabbitmq")
def test_purge_empties_the_queues_of_both_kinds(site):
    """S16: ``celery purge`` uses the consumer that a worker replaces by its lanes."""
    for number in range(3):
        site.send("i.sleep", f"i{number}")
        site.send("b.sleep", f"b{number}")
    command = [sys.executable, "-m", "celery", "-A", "tests.apps.mixed", "purge", "-f"]
    env = {**os.environ, **site.broker.environ()}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Purged 6 messages from" in done.stdout
    assert site.take_all() == []


@pytest.mark.brokers("redis", "rabbitmq")
def test_only_a_worker_s_own_consumer_is_replaced(site):
    """S16: everyone else gets kombu's."""
    with site.app.connection_for_read() as connection:
        assert type(site.app.amqp.TaskConsumer(connection)) is Consumer
