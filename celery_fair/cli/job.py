"""``celery -A proj fair job …``: batch jobs, seen and steered. Only the store is asked."""

from __future__ import annotations

import json
from typing import Any

import click
from celery.bin.base import CLIContext

from celery_fair.cli import job_options as options
from celery_fair.cli.group import FairGroup
from celery_fair.cli.options import json_option


@click.group(cls=FairGroup, within="job")
def job() -> None:
    """List, watch and steer batch jobs.

    They are asked of the Redis that keeps them, and of no worker. An ID may be cut to what no other
    one begins with.

    Exit code: that of the command; in all of them 2 for a job that isn't there, 69 if the Redis
    can't be asked, 78 if the app has none.
    """


@job.command("list")
@options.start_option
@options.count_option(20, 200)
@json_option
@click.pass_obj
def list_(obj: CLIContext, start: int, count: int, as_json: bool) -> None:
    """List the jobs that are kept, the newest first.

    Exit code: 0.
    """
    from celery_fair.cli.job_find import fair_of

    found = fair_of(obj.app).list_jobs(start, count + 1)
    jobs, more = found[:count], len(found) > count
    if as_json:
        _write({"jobs": [one.as_dict() for one in jobs], "more": more})
        return
    from celery_fair.cli.job_text import show_list
    from celery_fair.cli.status import console

    show_list(console(obj), jobs, start, more)


@job.command()
@options.job_argument
@options.failures_option
@json_option
@click.pass_obj
def show(obj: CLIContext, id: str, failures: int, as_json: bool) -> None:
    """Show how far a job is, and what has failed in it.

    Exit code: 0; 2 if there is no such job.
    """
    from celery_fair.cli.job_find import fair_of, find

    found, progress = find(fair_of(obj.app), id)
    if as_json:
        _write(progress.as_dict())
        return
    from celery_fair.cli.job_text import show_one
    from celery_fair.cli.status import console

    failed = found.failures(0, failures) if progress.failed and failures else []
    show_one(console(obj), progress, failed)


@job.command()
@options.job_argument
@options.interval_option
@click.option("--json", "as_json", is_flag=True, help="Write lines of JSON.")
@click.pass_context
def watch(context: click.Context, id: str, interval: float | None, as_json: bool) -> None:
    """Watch a job until it ends, with a bar; Ctrl-C leaves the job alone.

    A paused job is watched on. Where the output is no terminal, each look that is different from
    the one before is a line.

    Exit code: 0 if the job finished; 1 if it finished with failures; 3 if it was cancelled; 2 if
    there is no such job; 130 after Ctrl-C.
    """
    from celery_fair.cli.job_find import fair_of, find
    from celery_fair.cli.job_watch import EXIT_CODES, watch
    from celery_fair.cli.status import console

    found, progress = find(fair_of(context.obj.app), id)
    ended = watch(console(context.obj), found, progress, interval, as_json=as_json)
    context.exit(EXIT_CODES[ended.state])


@job.command()
@options.job_argument
@options.reason_option
@json_option
@click.pass_obj
def pause(obj: CLIContext, id: str, reason: str | None, as_json: bool) -> None:
    """Let no more items of a job start.

    A chunk that runs stops at its next report, a few seconds later at most; what it has done is
    counted. Nothing of the job waits at the broker then.

    Exit code: 0; 1 if the job has ended; 2 if there is no such job.
    """
    from celery_fair.cli.job_steer import signed, steer

    steer(obj, id, lambda one: one.pause(signed(reason)), as_json=as_json)


@job.command()
@options.job_argument
@json_option
@click.pass_obj
def resume(obj: CLIContext, id: str, as_json: bool) -> None:
    """Go on with a job that was paused.

    Failures are counted anew against its threshold.

    Exit code: 0; 1 if the job has ended; 2 if there is no such job.
    """
    from celery_fair.cli.job_steer import steer

    steer(obj, id, lambda one: one.resume(), as_json=as_json)


@job.command()
@options.job_argument
@options.reason_option
@json_option
@click.pass_obj
def cancel(obj: CLIContext, id: str, reason: str | None, as_json: bool) -> None:
    """End a job for good, and drop what was not started.

    A chunk that runs stops at its next report. What is done stays done, and counted.

    Exit code: 0; 1 if the job has ended already; 2 if there is no such job.
    """
    from celery_fair.cli.job_steer import signed, steer

    steer(obj, id, lambda one: one.cancel(signed(reason)), as_json=as_json)


@job.command()
@options.job_argument
@json_option
@click.pass_obj
def retry(obj: CLIContext, id: str, as_json: bool) -> None:
    """Run the failed items of a job again, and no others.

    Exit code: 0, also if nothing had failed; 1 if the job was cancelled; 2 if there is no such job.
    """
    from celery_fair.cli.job_steer import retry_failed

    retry_failed(obj, id, as_json=as_json)


@job.command()
@options.job_argument
@options.start_option
@options.count_option(100, 1000)
@options.items_option
@json_option
@click.pass_obj
def failures(obj: CLIContext, id: str, start: int, count: int, items: bool, as_json: bool) -> None:
    """List the failed items of a job: which, of what error, how often.

    Items and what errors said of them are your data, and are left out unless --items is given.

    Exit code: 0; 2 if there is no such job.
    """
    from celery_fair.cli.job_pages import show_failures

    show_failures(obj, id, start, count, items=items, as_json=as_json)


@job.command()
@options.job_argument
@options.start_option
@options.count_option(100, 1000)
@click.pass_obj
def results(obj: CLIContext, id: str, start: int, count: int) -> None:
    """Write the results of a job as lines of JSON, in the items' order.

    --start and --count are of items; those that have no result yet, or failed, are left out. Only a
    job that was submitted with results=True has any.

    Exit code: 0; 2 if there is no such job.
    """
    from celery_fair.cli.job_pages import write_results

    write_results(obj, id, start, count)


def _write(said: Any) -> None:
    click.echo(json.dumps(said, indent=2))
