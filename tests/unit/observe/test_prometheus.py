"""The text that Prometheus gets, and the endpoint that gives it out."""

from __future__ import annotations

import logging
import os
import socket
import urllib.request

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from celery_fair.observe import prometheus
from celery_fair.observe.metrics import EXPORTER, METRICS, UNREAD, Reach
from celery_fair.observe.prometheus import Endpoint, FairCollector, registry_of
from celery_fair.observe.reading import Source
from tests.brokers.process import free_port
from tests.brokers.waiting import wait_until
from tests.unit.observe.workers import facts, histogram, kind, resource, source, task

REACH = Reach(
    connected=True,
    unreadable=2,
    lost=1,
    last_seen={"w1": 1_800_000_000.5},
    replayed={"interactive": {"measured": 41.0, "would_be": 1.9, "error": 0.05}},
)


def scraped(sources, reach=None):
    """Name and labels to value, of a whole scrape."""
    registry = registry_of(FairCollector(lambda: sources, reach and (lambda: reach)))
    return parsed(generate_latest(registry).decode())


def parsed(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def names(found):
    return {key[0] for key in found}


# The text


def test_a_scrape_has_every_series_of_the_table_and_no_other():
    share = {**facts()["share"], "received": 0.2}
    engine = {**facts()["engine"], "pressure": 0.5}
    openai = {**resource(), "requests_left": 5.0}
    resources = {**facts()["resources"], "of": [openai]}
    tenants = {"waiting": 2, "longest_wait_seconds": 1.0, "top": []}
    clearing = {**facts()["clearing"], "places": {"openai": 1}}
    more = {"share": share, "engine": engine, "resources": resources, "clearing": clearing,
            "batch": kind("celery.batch", tenants=tenants)}  # fmt: skip
    found = scraped({"w1": source(task("t", succeeded=1), **more)}, REACH)
    table = {name for metric in (*METRICS, UNREAD, *EXPORTER) for name in metric.series}
    assert names(found) == table


def test_a_worker_alone_has_none_of_the_exporters():
    found = names(scraped({"w1": source()}))
    assert not found & {name for metric in EXPORTER for name in metric.series}


def test_each_worker_is_a_label():
    found = scraped({"w1": source(), "w2": source(slots={**facts()["slots"], "total": 3})})
    assert found["celery_fair_slots", ("worker", "w1")] == 8
    assert found["celery_fair_slots", ("worker", "w2")] == 3


def test_buckets_are_named_by_their_bounds():
    waits = histogram((0.001, 1), (2.5, 1), (9e9, 1))
    found = scraped({"w1": source(batch=kind(waits=waits))})
    buckets = {
        dict(key[1:])["le"]: value
        for key, value in found.items()
        if key[0] == "celery_fair_wait_seconds_bucket" and ("kind", "batch") in key
    }
    assert (buckets["0.001"], buckets["2.5"], buckets["14400.0"], buckets["+Inf"]) == (1, 2, 2, 3)
    assert found["celery_fair_wait_seconds_count", ("kind", "batch"), ("worker", "w1")] == 3


def test_the_exporters_own_are_there():
    found = scraped({}, REACH)
    assert found == {
        ("celery_fair_exporter_connected",): 1,
        ("celery_fair_exporter_workers",): 1,
        ("celery_fair_exporter_workers_lost_total",): 1,
        ("celery_fair_exporter_unreadable_events_total",): 2,
        ("celery_fair_worker_last_seen_timestamp_seconds", ("worker", "w1")): 1_800_000_000.5,
        ("celery_fair_observed_wait_seconds", ("kind", "interactive")): 41.0,
        ("celery_fair_counterfactual_wait_seconds", ("kind", "interactive")): 1.9,
        ("celery_fair_counterfactual_error_ratio", ("kind", "interactive")): 0.05,
    }


def test_one_metric_may_be_asked_for_by_name():
    registry = registry_of(FairCollector(lambda: {"w1": source()}))
    text = generate_latest(registry.restricted_registry(["celery_fair_slots"])).decode()
    assert names(parsed(text)) == {"celery_fair_slots"}


def test_no_two_apps_share_a_registry():
    collector = FairCollector(dict)
    assert registry_of(collector) is not registry_of(collector)


# Facts that are not as they should be


@pytest.mark.parametrize("part", sorted(facts()))
@pytest.mark.parametrize("value", [None, "x", 5, [], {}, {"mode": [1]}], ids=str)
def test_whatever_one_worker_says_the_others_are_scraped(part, value):
    found = scraped({"odd": source(**{part: value}), "well": source()})
    assert found["celery_fair_slots", ("worker", "well")] == 8
    assert found["celery_fair_unread_metrics", ("worker", "well")] == 0
    well = {key for key in found if ("worker", "well") in key}
    assert len(well) == len(scraped({"well": source()}))


def test_what_is_left_out_is_counted_and_the_rest_of_that_worker_stays():
    found = scraped({"odd": source(sensor={"reads": 3})})
    assert found["celery_fair_sensor_reads_total", ("worker", "odd")] == 3
    assert found["celery_fair_unread_metrics", ("worker", "odd")] == 3
    assert "celery_fair_sensor_latency_seconds" not in names(found)


def test_a_worker_without_any_facts_is_only_counted():
    found = scraped({"empty": Source({}, ())})
    with_tasks_only = sum(metric.name.startswith("celery_fair_task_") for metric in METRICS)
    assert found == {
        ("celery_fair_unread_metrics", ("worker", "empty")): len(METRICS) - with_tasks_only
    }


def test_names_that_can_not_be_encoded_break_nothing():
    found = scraped({"w\ud800": source(task('t"\n\udfff', succeeded=1))})
    assert ("celery_fair_slots", ("worker", "w\\ud800")) in found


# The endpoint


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def serve(port):
    """Start an endpoint on ``port``; stopped and waited for in the end."""
    started = []

    def start(host="127.0.0.1"):
        registry = registry_of(FairCollector(lambda: {"w1": source()}))
        endpoint = Endpoint(registry, host, port, "the cure")
        started.append(endpoint)
        endpoint.start()
        return endpoint

    yield start
    for endpoint in started:
        endpoint.stop()
    for endpoint in started:
        endpoint.join(5)
        assert not endpoint.is_alive()


def answers(port):
    try:
        # Past any proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def test_metrics_are_served_until_it_is_stopped(serve, port):
    endpoint = serve()
    wait_until(lambda: "celery_fair_slots" in answers(port), "metrics")
    endpoint.stop()
    endpoint.join(5)
    assert not answers(port)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_that_is_taken_is_named_once_with_the_cure_and_had_as_soon_as_it_is_free(
    serve, port, caplog, monkeypatch
):
    monkeypatch.setattr(prometheus, "RETRY_SECONDS", 0.02)
    caplog.set_level(logging.INFO)
    tries = []
    real = prometheus.start_http_server
    monkeypatch.setattr(
        prometheus, "start_http_server", lambda *a, **k: (tries.append(1), real(*a, **k))[1]
    )
    with socket.create_server(("127.0.0.1", port)):
        serve()
        wait_until(lambda: len(tries) >= 3, "three tries")
    wait_until(lambda: "celery_fair_slots" in answers(port), "metrics")
    (warning,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert f"port {port} of 127.0.0.1 (Address already in use): the cure" in warning.getMessage()
    assert f"metrics on http://127.0.0.1:{port}/metrics" in caplog.text


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_a_host_that_is_not_this_machines_is_said_and_not_raised(serve, host, caplog):
    caplog.set_level(logging.WARNING)  # another test's app may have raised it
    endpoint = serve(host)
    wait_until(lambda: f"of {host} (" in caplog.text, "a warning")
    assert endpoint.is_alive()


def test_a_forked_child_does_not_keep_the_port(serve, port):
    endpoint = serve()
    wait_until(lambda: answers(port), "metrics")
    hold, released = os.pipe(), os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        os.close(released[0])
        os.write(released[1], b"x")
        os.close(hold[1])
        os.read(hold[0], 1)  # until the parent has had its port again
        os._exit(0)
    os.read(released[0], 1)
    try:
        endpoint.stop()
        endpoint.join(30)
        assert not endpoint.is_alive()
        socket.create_server(("127.0.0.1", port)).close()
    finally:
        for end in (*hold, *released):
            os.close(end)
        os.waitpid(child, 0)
