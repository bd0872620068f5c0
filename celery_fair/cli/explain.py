"""``celery -A proj fair explain``: where a task is, and why it waits."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from celery.bin.base import CLIContext

from celery_fair.cli.options import json_option, timeout_option
from celery_fair.policy.kinds import KINDS

EX_UNKNOWN = 1
"""Nobody knows the task."""

LONGEST_ID = 255


@click.command()
@click.argument("task_id", required=False)
@click.option("--kind", type=click.Choice(KINDS), help="Why a kind waits.")
@click.option("--worker", metavar="NODE", help="Ask this worker only; alone: what it does.")
@json_option
@timeout_option
@click.pass_obj
def explain(
    obj: CLIContext,
    task_id: str | None,
    kind: str | None,
    worker: str | None,
    as_json: bool,
    timeout: float,
) -> None:
    """Say where a task is, and why it waits or has waited.

    Of TASK_ID, of a kind, or of a worker and what it has decided of late. The workers are
    asked, then the broker is looked at where it can be (Redis), then the result backend.

    Exit code: 0; 1 if nobody knows the task; 69 if no worker answers or the broker can't be
    reached.
    """
    from celery_fair.cli.asking import Asking

    if task_id is None and kind is None and worker is None:
        raise click.UsageError("expected a task's id, --kind or --worker, and got none of them.")
    if task_id is not None and not 0 < len(task_id) <= LONGEST_ID:
        raise click.UsageError(
            f"expected a task's id of 1 to {LONGEST_ID} characters, got {len(task_id)}."
        )
    asking = Asking(obj.app, timeout, workers=[worker] if worker else [])
    if task_id is not None:
        _task(obj, asking, task_id, kind, as_json, timeout)
    else:
        _overview(obj, asking, kind, worker, as_json, timeout)


def _task(
    obj: CLIContext, asking: Any, id: str, kind: str | None, as_json: bool, timeout: float
) -> None:
    from celery_fair.cli.explain_json import of_task
    from celery_fair.cli.explain_text import show_task
    from celery_fair.cli.status import console

    found = asking.task(id, kind)
    if not found.is_found and not asking.answered:
        _nobody(obj.app, timeout, asking)
    if as_json:
        click.echo(json.dumps(of_task(found), indent=2))
    else:
        show_task(console(obj), found, time.time())
    if not found.is_found:
        click.get_current_context().exit(EX_UNKNOWN)


def _overview(
    obj: CLIContext,
    asking: Any,
    kind: str | None,
    worker: str | None,
    as_json: bool,
    timeout: float,
) -> None:
    from celery_fair.cli.explain_json import of_kind
    from celery_fair.cli.explain_many_text import show_kind, show_worker
    from celery_fair.cli.explained_kind import explain_kind
    from celery_fair.cli.status import console

    said = asking.workers(recent=10 if worker else 0)
    if not said.reports:
        _nobody(obj.app, timeout, asking, said.silent)
    if kind is not None:
        found = explain_kind(kind, said, time.time(), asking.first_ready_at(said, kind))
        if as_json:
            click.echo(json.dumps(of_kind(found), indent=2))
        else:
            show_kind(console(obj), found, time.time())
        return
    if as_json:
        click.echo(json.dumps(dict(said.reports), indent=2))
        return
    for node, report in said.reports.items():
        show_worker(console(obj), node, report, time.time())


def _nobody(app: Any, timeout: float, asking: Any, silent: Any = None) -> None:
    from celery_fair.cli.overview import Answers
    from celery_fair.cli.status import fail_without_reports

    fail_without_reports(app, Answers({}, silent or {}), timeout, asking.nodes or None)
