"""Flower with the Fair page: real processes, a real worker, and what a browser shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.flower.facts import facts
from tests.nodes.worker import ROOT

APP = "tests.apps.mixed"
PAGE = ROOT / "docs" / "flower.md"


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


# --- with a real worker


def test_a_worker_is_on_the_page_its_tasks_have_a_kind_and_metrics_its_slots(
    start_flower, start_worker, app, journal
):
    flower = start_flower()
    start_worker("tests.apps.plain", queues="elsewhere", wait_ready=False)
    start_worker(APP, concurrency=4)
    flower.hears()
    # Flower asks for events of tasks every five seconds; before that there are none.
    wait_until(
        lambda: _published(app, flower), "tasks with their kinds", timeout=15, poll_seconds=0.3
    )
    rows = {row["name"]: row for row in flower.tasks() if row["name"]}
    assert (rows["i.sleep"]["fair_kind"], rows["i.sleep"]["fair_queue"]) == (
        "interactive",
        "celery",
    )
    assert (rows["b.sleep"]["fair_kind"], rows["b.sleep"]["fair_queue"]) == (
        "batch",
        "celery.batch",
    )
    assert {row["state"] for row in flower.tasks()} <= {"RECEIVED", "STARTED", "SUCCESS"}
    assert 'data-column="fair_kind"' in flower.get("/tasks").text

    def running():
        (worker,) = flower.data()["workers"]
        return worker["slots"]["batch"] >= 2

    for number in range(10):
        app.tasks["b.sleep"].delay(f"b{number}", 60)
    wait_until(running, "batch tasks on the page", timeout=15)
    wait_until(lambda: flower.data()["without"] == ["w1@test"], "the plain worker", timeout=30)
    scraped = flower.get("/metrics").text
    found = {family.name: family for family in text_string_to_metric_families(scraped)}
    slots = [s for s in found["celery_fair_slots"].samples if s.labels["worker"] == "w2@test"]
    assert slots
    assert "flower_worker_online" in found


def _published(app, flower) -> bool:
    for prefix in "ib":
        app.tasks[f"{prefix}.sleep"].delay(prefix)
    kinds = {row["fair_kind"] for row in flower.tasks() if row["state"] == "SUCCESS"}
    return {"interactive", "batch"} <= kinds


# --- who may see it

PROTECTED = ("/fair", "/fair/data", "/fair/static/fair.css", "/fair/static/live.js")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH")


def test_every_address_asks_for_the_password_under_a_prefix_too(start_flower, fleet, open_page):
    flower = start_flower("--basic_auth=user:secret", prefix="fl")
    for path in PROTECTED:
        for method in METHODS:
            status = flower.get(path, method=method).status
            assert status in ((401,) if method == "GET" else (401, 405)), (method, path)
            assert flower.get(path, user="user:wrong", method=method).status in (401, 405)
        assert flower.get(path, user="user:secret").status == 200, path
    assert flower.get("/metrics").status == 200  # as Flower has it

    fleet.introduce(flower, {"w1@shop": facts()}, "user:secret")
    page = open_page(
        f"{flower.url}/fair", http_credentials={"username": "user", "password": "secret"}
    )
    page.get_by_text("6 free of 8").or_(page.get_by_text("8 free of 8")).first.wait_for()
    link = page.get_by_role("link", name="w1@shop").first
    assert link.get_attribute("href") == "/fl/worker/w1%40shop"
    assert page.get_by_role("link", name="Fair", exact=True).get_attribute("href") == "/fl/fair"


def test_plain_celery_flower_has_it_by_two_lines_of_configuration(start_flower, tmp_path):
    conf = tmp_path / "flowerconfig.py"
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(lines.split("\n\n")) == 2
    conf.write_text(lines)
    flower = start_flower(f"--conf={conf}", "--tasks_columns=name,fair_queue", command=["flower"])
    assert flower.get("/fair").status == 200
    columns = re.findall(r'data-column="(\w+)"', flower.get("/tasks").text)
    assert columns == ["name", "fair_queue"]  # what somebody has chosen


# --- what can be wrong


def run(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", APP, *command],
        cwd=ROOT,
        env={**os.environ, "BROKER": "memory://", **(env or {})},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise ImportError('none here')", "Flower is not installed"),
        ("__version__ = '1.2.0'", "Flower 1.2.0 is too old"),
    ],
)
def test_without_a_flower_of_today_there_is_one_sentence(tmp_path, module, said):
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "__init__.py").write_text(module)
    (tmp_path / "flower" / "command.py").write_text("flower = None")
    done = run("fair", "flower", env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert done.returncode != 0
    assert f"{said}: pip install 'celery-fair[flower]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("fair", "flower", f"--port={port}", "--address=127.0.0.1")
    assert done.returncode == 69
    assert f"Flower can't listen on port {port}" in done.stderr
    assert "Traceback" not in done.stderr


# --- over time


def test_workers_tell_their_facts_each_second_while_somebody_looks(start_flower, start_worker):
    flower = start_flower()
    worker = start_worker(APP)
    data = flower.hears()
    assert data["workers"][0]["age_seconds"] < 15
    ages = []

    def each_second():
        ages.append(flower.data()["workers"][0]["age_seconds"])
        return len(ages) > 5 and max(ages[-5:]) < 3

    wait_until(each_second, lambda: f"an event each second: {ages}", timeout=20, poll_seconds=0.5)
    assert worker.running
