"""Options of Celery's that take something away from celery-fair, or that lanes don't cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.queues import driver_type
from celery_fair.doctor.tasks import needs_state, own_tasks
from celery_fair.errors import SettingsError

EAGER: Final = rule(
    "F016",
    "warning",
    "tasks run where they are called",
    why="With task_always_eager nothing is sent to a queue, so that nothing gives way to anything.",
    cure="Leave it to tests: set task_always_eager to false.",
)
NO_REMOTE_CONTROL: Final = rule(
    "F017",
    "info",
    "workers can't be asked anything",
    why="Without remote control they don't answer `fair status`, `fair doctor` or `fair explain`, "
    "and no order reaches them while they run.",
    cure="Set worker_enable_remote_control to true, unless that is meant.",
)
KEPT_RESULTS: Final = rule(
    "F018",
    "info",
    "results are kept for ever",
    why="With result_expires of 0 or None each result stays in the backend until somebody deletes "
    "it; a Redis fills up with them, and with it the broker where it is the same.",
    cure="Set result_expires to the seconds for which somebody may still ask, or ignore_result for "
    "tasks whose result nobody reads.",
)
NO_PREFETCH_LIMIT: Final = rule(
    "F019",
    "warning",
    "worker_prefetch_multiplier is 0",
    why="0 is no limit. Lanes keep their own, but not for tasks behind a rate limit, and not in "
    "observe mode or in a worker without celery-fair: one worker then takes all that there is.",
    cure="Set worker_prefetch_multiplier to 1; lanes hold what short tasks need by themselves.",
)
NARROWED: Final = rule(
    "F020",
    "warning",
    "an option that narrows Celery's own prefetch window",
    why="Lanes have windows of their own, which no such option touches; workers in observe mode "
    "and those without celery-fair have Celery's.",
    cure="Take the option out, or let lanes do it: mode 'enforce'.",
)
NO_STATE: Final = rule(
    "F021",
    "error",
    "nowhere to keep what deduplication, jobs or resources need",
    why="deduplicate_seconds, job tasks and resources need a Redis that all publishers and workers "
    "share.",
    cure="Set state_url, as in 'redis://host:6379/1', or take out what needs it.",
)

#: Backends that keep nothing, or whose results go away by themselves.
WITHOUT_KEPT_RESULTS: Final = ("rpc", "disabled", "amqp")


def option_findings(fair: Fair) -> Iterator[Finding]:
    conf = fair.app.conf
    if conf.task_always_eager:
        yield EAGER.finding("task_always_eager is set")
    if not conf.worker_enable_remote_control:
        yield NO_REMOTE_CONTROL.finding("worker_enable_remote_control is false")
    yield from _kept_results(conf)
    yield from _no_prefetch_limit(fair)
    if fair.settings.mode == "observe":
        narrowing = list(narrowed(fair.app, threads=conf.worker_pool == "threads"))
        if narrowing:
            yield NARROWED.finding(f"In observe mode: {'; '.join(narrowing)}")
    yield from _no_state(fair)


def _kept_results(conf: Any) -> Iterator[Finding]:
    backend = str(conf.result_backend or "disabled").partition("://")[0]
    is_kept = backend not in WITHOUT_KEPT_RESULTS and not conf.task_ignore_result
    if is_kept and not conf.result_expires:
        yield KEPT_RESULTS.finding(f"result_expires is {conf.result_expires!r}")


def _no_prefetch_limit(fair: Fair) -> Iterator[Finding]:
    if fair.app.conf.worker_prefetch_multiplier:
        return
    tasks = own_tasks(fair.app)
    limited = [name for name, task in tasks.items() if getattr(task, "rate_limit", None)]
    if fair.settings.mode == "observe":
        yield NO_PREFETCH_LIMIT.finding("worker_prefetch_multiplier is 0 in observe mode")
    elif limited:
        yield NO_PREFETCH_LIMIT.finding(
            f"worker_prefetch_multiplier is 0, and there are rate limits: {named(limited)}",
            limited,
        )


def narrowed(app: Any, *, threads: bool, autoscaled: bool = False) -> Iterator[str]:
    """What would narrow the window of a worker without lanes; as Celery and kombu 5.7 do it."""
    conf = app.conf
    limit = conf.get("worker_eta_task_limit")  # since Celery 5.6
    if limit:
        yield (
            f"worker_eta_task_limit={limit}: each task with an ETA beyond it takes a place out of "
            f"the window for good, down to 1"
        )
    if conf.get("worker_disable_prefetch") and threads and driver_type(app) == "redis":
        yield (
            "worker_disable_prefetch on the threads pool: nothing wakes the worker when a task "
            "ends, so that slots stay empty"
        )
    late = any(task.acks_late for task in own_tasks(app).values())
    reduces = conf.get("worker_enable_prefetch_count_reduction")
    if autoscaled and reduces and late and conf.worker_prefetch_multiplier == 1:
        yield (
            "worker_enable_prefetch_count_reduction under autoscale: a reconnect sizes the window "
            "by the processes that there are then, and while tasks acknowledge late no more are "
            "started"
        )


def _no_state(fair: Fair) -> Iterator[Finding]:
    needs = needs_state(fair)
    if not needs:
        return
    from celery_fair.state import connector

    try:
        connector(fair, needs[0])  # which connects to nothing yet
    except SettingsError as error:
        yield NO_STATE.finding("; ".join(error.problems))
    except Exception as error:  # a backend of the team's that can't be made here
        yield NO_STATE.finding(f"the result backend can't be made: {error}", severity="warning")
