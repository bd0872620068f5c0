"""Dashboard and alerts name metrics and labels that exist, and Prometheus can read all of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from celery_fair.observe.metrics import EXPORTER, METRICS, UNREAD
from tests.brokers.fixtures import need

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "grafana"
BOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
PAGES = ("metrics.md", "autoscaling.md")

#: What Prometheus adds to what it scrapes.
ADDED = {"job", "instance", "le"}

LABELS = {
    series: {"worker", *metric.labels} for metric in (*METRICS, UNREAD) for series in metric.series
} | {series: set(own.labels) for own in EXPORTER for series in own.series}


def promtool(*arguments, cwd=FOLDER):
    need("promtool", shutil.which("promtool"))
    done = subprocess.run(["promtool", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def panels():
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def queries():
    """Each query of the dashboard as Prometheus gets it, with the name of its panel."""
    return [
        (
            f"{panel['title']} {target['refId']}",
            target["expr"].replace("$__rate_interval", "1m").replace("$worker", ".*"),
        )
        for panel in panels()
        for target in panel["targets"]
    ]


def rules():
    """The expression of each alert, by its name."""
    found = {}
    for block in RULES.split("- alert: ")[1:]:
        folded = re.search(r"expr: >\n((?: {10}.*\n)+)|expr: (.*)\n", block)
        found[block.split()[0]] = " ".join((folded[1] or folded[2]).split())
    return found


def unknown(expression):
    """Metrics that aren't in the table, and labels that none of those that are has."""
    expression = expression.replace("$__rate_interval", "1m")
    metrics = set(re.findall(r"\bcelery_fair_\w+", expression))
    known = ADDED.union(*(LABELS.get(metric, ()) for metric in metrics))
    matchers = [
        (metric, label)
        for metric, braces in re.findall(r"(celery_fair_\w+)\{(.*?)\}", expression)
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces)
    ]
    grouped = [
        label
        for listed in re.findall(r"\b(?:by|on|ignoring|without)\s*\((.*?)\)", expression)
        for label in re.findall(r"\w+", listed)
    ]
    wrong = {f"{metric}{{{label}}}" for metric, label in matchers
             if label not in LABELS.get(metric, ()) | ADDED}  # fmt: skip
    return (metrics - LABELS.keys()) | wrong | (set(grouped) - known)


# What finds the mistakes


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("sum by (kind) (celery_fair_running_tasks)", set()),
        ("rate(celery_fair_wait_seconds_bucket[5m])", set()),
        ("rate(celery_fair_wait_seconds[5m])", {"celery_fair_wait_seconds"}),
        ("sum by (mode) (celery_fair_running_tasks)", {"mode"}),
        ('celery_fair_slots{kind="batch"}', {"celery_fair_slots{kind}"}),
        ('celery_fair_slots{worker=~".*", job="a"}', set()),
    ],
)
def test_a_query_of_what_does_not_exist_is_found(expression, found):
    assert unknown(expression) == found


# The dashboard


def test_the_dashboard_is_what_its_script_makes():
    pytest.importorskip("grafana_foundation_sdk", reason="it needs Python 3.11")
    done = subprocess.run(
        [sys.executable, "grafana/dashboard.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == BOARD, (
        "run `python grafana/dashboard.py > grafana/dashboard.json`"
    )


def test_every_query_names_what_exists():
    assert {name: unknown(query) for name, query in queries() if unknown(query)} == {}


def test_every_legend_is_a_label_of_its_query():
    for panel in panels():
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                metrics = re.findall(r"\bcelery_fair_\w+", target["expr"])
                assert all(label in LABELS[metric] for metric in metrics), (panel["title"], label)


def test_prometheus_can_read_every_query(tmp_path):
    recorded = [
        {"record": f"q{number}", "expr": query} for number, (_, query) in enumerate(queries())
    ]
    groups = {"groups": [{"name": "dashboard", "rules": recorded}]}
    (tmp_path / "queries.yml").write_text(json.dumps(groups))  # JSON is YAML
    said = promtool("check", "rules", "queries.yml", cwd=tmp_path)
    assert f"{len(recorded)} rules found" in said


def test_the_first_row_answers_the_three_questions():
    rows = [index for index, panel in enumerate(BOARD["panels"]) if panel["type"] == "row"]
    first = BOARD["panels"][rows[0] + 1 : rows[1]]
    asked = " ".join(target["expr"] for panel in first for target in panel["targets"])
    for name in ("wait_seconds_bucket", "finished_total", "batch_last_start_timestamp_seconds",
                 "batch_share_received_ratio", "batch_share_guaranteed_ratio", "running_tasks",
                 "reserve_slots", "idle_slot_seconds_total"):  # fmt: skip
        assert f"celery_fair_{name}" in asked


def test_panels_have_their_own_numbers_and_places_and_say_what_they_show():
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    taken = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert all(panel["description"].endswith(".") for panel in panels())


def test_every_metric_of_the_table_is_shown_or_left_out_on_purpose():
    """A new metric is either put into a panel, or named here."""
    shown = {name for _, query in queries() for name in re.findall(r"\bcelery_fair_\w+", query)}
    left_out = {metric.name.removeprefix("celery_fair_")
                for metric in (*METRICS, UNREAD, *EXPORTER)
                if not shown & set(metric.series)}  # fmt: skip
    assert left_out == {
        "worker_start_timestamp_seconds", "run_seconds", "source_available", "slot_seconds_total",
        "credit_tasks", "estimated_run_seconds", "dispatched_total", "would_have_held_total",
        "batch_owed", "fleet_workers", "fleet_slots", "worker_last_seen_timestamp_seconds",
        "exporter_connected", "exporter_workers", "exporter_unreadable_events_total",
        "yield_reaction_seconds_total", "tenants_waiting", "tenant_longest_wait_seconds",
        "resources_outages_total", "places_lost_total",
        "places_returned_total", "places_held", "hook_stuck_threads",
        "observed_wait_seconds", "counterfactual_wait_seconds", "counterfactual_error_ratio",
    }  # fmt: skip


# The alerts


def test_prometheus_takes_the_rules():
    assert f"{len(rules())} rules found" in promtool("check", "rules", "alerts.yml")


def test_each_rule_fires_when_it_should_and_not_else():
    promtool("test", "rules", "alerts_test.yml")


def test_each_rule_has_a_case_in_which_it_fires_and_one_in_which_it_does_not():
    cases = (FOLDER / "alerts_test.yml").read_text(encoding="utf-8")
    for name in rules():
        outcomes = re.findall(rf"alertname: {name}\n\s+exp_alerts:(.*)\n", cases)
        assert "" in outcomes, f"{name} never fires"
        assert " []" in outcomes, f"{name} is never quiet"


def test_every_rule_names_what_exists():
    assert {name: unknown(rule) for name, rule in rules().items() if unknown(rule)} == {}


# The pages


@pytest.mark.parametrize("page", PAGES)
def test_the_queries_of_a_page_name_what_exists(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:promql|yaml)\n(.*?)```", text, re.DOTALL)
    assert blocks
    assert {block: unknown(block) for block in blocks if unknown(block)} == {}


@pytest.mark.parametrize("page", PAGES)
def test_prometheus_can_read_the_queries_of_a_page(page, tmp_path):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = [
        query
        for block in re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
        for query in re.split(r"\n\n|# .*\n", block)
        if query.strip()
    ]
    assert found
    recorded = [{"record": f"q{number}", "expr": query} for number, query in enumerate(found)]
    groups = {"groups": [{"name": "page", "rules": recorded}]}
    (tmp_path / "queries.yml").write_text(json.dumps(groups))
    promtool("check", "rules", "queries.yml", cwd=tmp_path)


def test_the_page_has_each_alert():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(CeleryFair\w+)` \|", page, re.MULTILINE) == list(rules())
