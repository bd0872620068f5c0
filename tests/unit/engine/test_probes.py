"""The ready-made probes, against a real server."""

from __future__ import annotations

import math

import pytest

from celery_fair.engine import EngineLoad, PrometheusLoad, VLLMLoad
from celery_fair.engine.fetching import FetchError
from celery_fair.engine.load import MOST, BadAnswer, read_answer
from tests.unit.engine.server import metrics_server


@pytest.fixture
def page():
    with metrics_server() as served:
        yield served


def test_vllm_requests_that_wait_in_all_engines_are_compared_with_what_is_fine(page):
    page.vllm(waiting=11.0)
    probe = VLLMLoad(page.url, waiting=8, model="m")
    assert probe() == EngineLoad(1.5, "waiting requests: 12")
    assert VLLMLoad(page.url, waiting=8)().pressure == 6.5  # the other model's too


def test_the_root_of_a_vllm_server_will_do(page):
    page.vllm(waiting=3.0)
    assert VLLMLoad(page.url.removesuffix("/metrics"), model="m")().pressure == 0.5


@pytest.mark.parametrize(("cache", "pressure"), [(0.5, 0.125), (0.81, 0.5), (0.9, 1.0)])
def test_the_fullest_cache_counts_where_it_is_asked_for(page, cache, pressure):
    page.vllm(waiting=0.0, cache=cache)
    probe = VLLMLoad(page.url, waiting=8, model="m", kv_cache=0.9)
    assert probe().pressure == pytest.approx(pressure)
    assert f"KV cache {cache:.0%}" in probe().detail


def test_the_older_name_of_the_cache_will_do(page):
    page.vllm(waiting=0.0, cache=0.9)
    page.text = page.text.replace("vllm:kv_cache", "vllm:gpu_cache")
    assert VLLMLoad(page.url, model="m", kv_cache=0.9)().pressure == pytest.approx(1.0)


@pytest.mark.parametrize(("of", "pressure"), [(sum, 4.0), (max, 3.0), (min, 0.5)])
def test_any_metric_can_be_put_together_and_scaled(page, of, pressure):
    page.text = 'tgi_queue_size{replica="a"} 7\ntgi_queue_size{replica="b"} 2\n'
    probe = PrometheusLoad(page.url, "tgi_queue_size", full_at=3, idle_at=1, of=of)
    assert probe().pressure == pytest.approx(pressure)


def test_only_samples_with_the_labels_count(page):
    page.text = 'queue{replica="a",zone="x"} 7\nqueue{replica="b",zone="y"} 2\n'
    probe = PrometheusLoad(page.url, "queue", full_at=2, labels={"zone": "y"})
    assert probe() == EngineLoad(1.0, "queue 2 of 2")


def test_headers_go_with_the_request(page):
    page.text = "queue 1\n"
    PrometheusLoad(page.url, "queue", full_at=2, headers={"Authorization": "Bearer x"})()
    assert page.asked[0]["Authorization"] == "Bearer x"


def test_a_page_without_the_metric_says_which_is_missing(page):
    page.text = "queue_of_another 1\n"
    with pytest.raises(LookupError, match=r"http://127\.0\.0\.1:\d+/metrics has no queue"):
        PrometheusLoad(page.url, "queue", full_at=2)()


def test_an_error_of_the_server_is_one(page):
    page.status = 503
    with pytest.raises(FetchError, match="answered 503"):
        PrometheusLoad(page.url, "queue", full_at=2)()


def test_a_server_that_drips_is_cut_off(page):
    page.drips = True
    with pytest.raises(FetchError, match=r"took longer than 0\.1 s"):
        PrometheusLoad(page.url, "queue", full_at=2, timeout_seconds=0.1)()


def test_nobody_there_is_an_error(page):
    with pytest.raises(OSError, match="refused"):
        VLLMLoad("http://127.0.0.1:9", timeout_seconds=0.5)()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: VLLMLoad("vllm:8000"), "expected the URL of a metrics page"),
        (lambda: PrometheusLoad("file:///etc/passwd", "q", full_at=1), "expected the URL"),
        (lambda: PrometheusLoad("http://a/", "q", full_at=1, idle_at=1), "over idle_at=1"),
        (lambda: VLLMLoad("http://a", kv_cache=90), r"a part in \(0, 1\]"),
        (lambda: VLLMLoad("http://a", waiting=0), "over idle_at=0"),
    ],
)
def test_bad_arguments_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_no_password_is_shown():
    assert repr(VLLMLoad("http://u:secret@vllm:8000?token=1")).count("secret") == 0


@pytest.mark.parametrize(
    ("answer", "load"),
    [
        (True, EngineLoad(2.0)),
        (False, EngineLoad(0.0)),
        (3, EngineLoad(3.0)),
        (EngineLoad(0.5, "a\nb"), EngineLoad(0.5, "a b")),
        (math.inf, EngineLoad(MOST)),
    ],
)
def test_what_an_answer_means(answer, load):
    assert read_answer(answer) == load


@pytest.mark.parametrize("answer", [None, "full", -1, math.nan, EngineLoad(math.nan), {}])
def test_nonsense_is_no_answer(answer):
    with pytest.raises(BadAnswer, match="expected an EngineLoad"):
        read_answer(answer)


def test_a_probe_is_not_awaited():
    async def probe():
        return 1

    with pytest.raises(BadAnswer, match="a coroutine"):
        read_answer(probe())
