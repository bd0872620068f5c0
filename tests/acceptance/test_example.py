"""``python -m example_project``: everything at once, with live data, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from urllib.error import URLError
from urllib.request import urlopen

import httpx
import psutil
import pytest

from example_project.model_server import QUEUE, SLOTS
from tests.brokers.fixtures import need
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

#: Contrast, names and ids of a page as it is drawn.
CHECKS = (ROOT / "tests" / "flower" / "checks.js").read_text(encoding="utf-8")
CHECKS = CHECKS.replace(".fair", "main")


@pytest.fixture
def start(tmp_path):
    """``start("--no-load", SETTING="…")``: the example on free ports, its output in a file."""
    need("redis-server", shutil.which("redis-server"))
    log = tmp_path / "example.log"
    with ExitStack() as ends:

        def start(*options, **environment):
            process = subprocess.Popen(
                [sys.executable, "-m", "example_project", "--free-ports", *options],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(tmp_path), **environment},
                stdout=ends.enter_context(log.open("w")),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ends.callback(end, process)
            return process, log

        yield start


def end(process):
    """End it as Ctrl-C does, or what a failed test has left of it."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(20)
    finally:
        for left in (process, *children):
            if left.is_running() if isinstance(left, psutil.Process) else left.poll() is None:
                left.kill()
        process.wait()


def page(log, name):
    """The address that was announced under that name."""
    return wait_until(
        lambda: (re.search(rf"^{name} +(http\S+)$", log.read_text(), re.MULTILINE) or [0, 0])[1],
        f"the address of {name}",
    )


def read(url):
    try:
        with urlopen(url, timeout=5) as reply:
            return reply.read().decode()
    except (URLError, OSError):
        return ""


def served(log, front):
    """The address of a front, once both workers answer it."""
    url = page(log, f"the page, by {front}")
    wait_until(
        lambda: json.loads(read(f"{url}status") or "{}").get("workers") == 2,
        lambda: f"both workers: {log.read_text()[-3000:]}",
        timeout=40,
    )
    return url


def test_the_example_shows_live_data_and_leaves_nothing(start, tmp_path):
    process, log = start()
    metrics = page(log, "metrics")
    ran = r'^celery_fair_finished_total{kind="batch",outcome="succeeded",.*} [1-9]'

    def batch_runs():  # on either: the fleet may keep its reserve on one
        return re.search(ran, read(metrics), re.MULTILINE)

    wait_until(batch_runs, lambda: f"batch to run: {log.read_text()[-2000:]}", timeout=40)
    wait_until(lambda: re.search(r"\d answered", log.read_text()), "a report of the load")
    assert "Who holds the slots" in read(page(log, "Flower's Fair page"))
    if shutil.which("prometheus"):
        query = page(log, "Prometheus").replace("/alerts", "/api/v1/query?query=celery_fair_slots")
        wait_until(lambda: _values(read(query)) == {"4"}, "Prometheus to have scraped", timeout=30)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 9
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    process.wait(30)
    psutil.wait_procs(children, timeout=5)
    assert [child for child in children if child.is_running()] == []
    assert "Traceback" not in log.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["example.log"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("front", "width"), [("Flask", 1280), ("Django", 375)])
def test_a_flood_delays_no_answer_and_each_refusal_says_whose_it_is(front, width, start, open_page):
    _, log = start("--no-load", CELERY_FAIR__BATCH_MAX_BACKLOG="5")
    browser = open_page(served(log, front), width=width, theme="dark" if width < 400 else "light")
    flood_and_ask(browser)
    ask_for_more_than_may_wait(browser)
    with ExitStack() as others:
        fill(page(log, "the model"), others)
        browser.get_by_role("button", name="Ask").click()
        busy = browser.locator("#ask-note", has_text="The model is busy (it answered 429)")
        busy.wait_for()
    browser.get_by_text("complete after").wait_for(timeout=20_000)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    browser.context.set_offline(True)
    for button, note in (("Ask", "#ask-note"), ("Summarize", "#batch-note")):
        browser.get_by_role("button", name=button).click()
        browser.locator(note, has_text="The service can't be reached").wait_for()
    assert browser.evaluate(f"({CHECKS})()") == []  # with refusals in sight


def flood_and_ask(browser):
    """In one queue the answer would come after all of the documents."""
    browser.get_by_label("Documents").fill("200")
    browser.get_by_role("button", name="Summarize").click()
    browser.get_by_text("Taken.").wait_for()
    browser.locator("#bar i.batch").first.wait_for()
    browser.get_by_label("Your question").fill("Am I first?")
    browser.get_by_role("button", name="Ask").click()
    browser.get_by_text("complete after").wait_for(timeout=20_000)
    assert browser.locator("#answer").inner_text().startswith("I am a stand-in")
    (job,) = jobs(browser)
    assert (job["total"], job["state"]) == (200, "running")
    assert job["done"] < 100
    browser.wait_for_function(  # and batch goes on
        f"parseInt(document.querySelector('#jobs span').textContent) > {job['done']}"
    )


def jobs(browser):
    return json.loads(read(f"{browser.url}jobs?count=20"))["jobs"]


def ask_for_more_than_may_wait(browser):
    """A pile is refused whole, in words, wherever those before it wait.

    Not always the second: what has left the broker is missing until the workers tell of it.
    """
    refused = browser.locator("#batch-note", has_text="Not taken: too much is waiting already")
    note = refused.or_(browser.locator("#batch-note", has_text="Taken."))
    piles = 0
    while piles < 3 and not refused.is_visible():
        piles += 1
        with browser.expect_response(lambda answer: answer.request.method == "POST"):
            browser.get_by_role("button", name="Summarize").click()
        note.wait_for()
    assert re.search(r"Nothing was started\. Try again in \d+ s\.", refused.inner_text())
    assert len(jobs(browser)) == piles


def fill(url, others):
    """Take all the model has, slots and queue, until the stack is closed; also what batch has."""
    held = []

    def talk():
        body = {"stream": True, "max_tokens": 1000, "messages": []}
        with httpx.Client(timeout=60) as client:
            while not over.is_set():
                with client.stream(
                    "POST", url.replace("models", "chat/completions"), json=body
                ) as reply:
                    if reply.status_code == 429:
                        over.wait(0.1)
                        continue
                    held.append(reply)
                    for _ in reply.iter_raw():
                        if over.is_set():
                            return

    over = threading.Event()
    for _ in range(16):
        thread = threading.Thread(target=talk)
        thread.start()
        others.callback(thread.join)
    others.callback(over.set)
    wait_until(lambda: len(held) >= SLOTS + QUEUE, "the model to be full")


def _values(text):
    results = json.loads(text or "{}").get("data", {}).get("result", [])
    return {result["value"][1] for result in results}


def test_failed_documents_are_tried_again_by_a_button(chromium):
    """The page alone, in front of a service that is made up."""
    job = {"id": "j1", "state": "finished with failures", "total": 9, "done": 7, "failed": 2}
    job |= {"rate": None, "eta": None, "asked_at": 1.0}

    def serve(route):
        method, path = route.request.method, route.request.url.removeprefix("http://service")
        if path == "/":
            page = (ROOT / "example_project" / "page.html").read_text(encoding="utf-8")
            route.fulfill(body=page, content_type="text/html")
        elif path.startswith("/jobs"):
            job["asked_at"] += 1  # and nothing else
            route.fulfill(json=job if method == "POST" else {"jobs": [job]})
        else:
            kind = {"running": 0, "waiting": 0, "wait_p95_seconds": None}
            kinds = {"interactive": kind, "batch": kind}
            route.fulfill(json={"workers": 0, "slots": 0, "kinds": kinds})

    page = chromium.new_page()
    page.route("**/*", serve)
    page.goto("http://service/")
    button = page.get_by_role("button", name="Try the failed ones again")
    button.focus()
    page.wait_for_function("performance.now() > 2500")  # two looks, and the focus stays
    assert page.evaluate("document.activeElement.textContent") == button.inner_text()
    assert "7 of 9 done, 2 failed (finished with failures)" in page.locator("#jobs").inner_text()
    with page.expect_request("**/jobs/j1/retry") as asked:
        page.keyboard.press("Enter")
    assert asked.value.method == "POST"
    page.close()
