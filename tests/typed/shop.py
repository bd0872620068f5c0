"""A team's module that uses the public names: clean under ``mypy --strict`` and pyright's strict.

Never run. `tests/unit/infra/test_typed.py` checks it, and `make release-check` against the wheel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import assert_type

from celery_fair import (
    BATCH,
    INTERACTIVE,
    KINDS,
    BadOption,
    Fair,
    FairError,
    FairSettings,
    GateChange,
    Job,
    Kind,
    Observer,
    Progress,
    QueueFull,
    QueueTimeout,
    RateLimited,
    TaskInfo,
    current_kind,
    fair_task,
    inherit_kind,
    job_task,
)
from celery_fair.before import Admit, Delay, HeldTask, Refuse, Reroute
from celery_fair.engine import VLLMLoad

if TYPE_CHECKING:
    from celery_fair.testing import FairWorker, Interrupted


class Counting(Observer):
    """A child overrides the hooks it wants."""

    late: int = 0

    def dispatched(self, task: TaskInfo) -> None:
        wait = assert_type(task.wait_seconds, "float | None")
        if wait is not None and wait > 1.0:
            self.late += 1

    def mode_changed(self, change: GateChange) -> None:
        print(change.at, change.mode, change.reason)


def before(task: HeldTask) -> Admit | Delay | Refuse | Reroute:
    if task.waited_seconds > 60.0:
        return Refuse("too late")
    return Delay(5.0) if task.retries else Admit()


def install(app: Any) -> Fair:
    fair = Fair(
        app, batch_share=0.3, before_batch=before, load_probe=VLLMLoad("http://engine:8000")
    )
    fair.add_observer(Counting())
    assert_type(fair.settings, FairSettings)
    assert_type(fair.settings.batch_share, float)
    return fair


@fair_task(kind="interactive", timeout_seconds=5.0)
def answer(question: str) -> str:
    return question


@fair_task
def unclassified(question: str) -> str:
    return question


@job_task
def page(number: int) -> None: ...


def publish(fair: Fair) -> None:
    kind: Kind = current_kind()
    assert kind in KINDS
    with fair.kind(BATCH), fair.inherit(INTERACTIVE, tenant="acme"), inherit_kind("batch"):
        answer.apply_async(("?",), kind="interactive")
    try:
        fair.admit("interactive")
    except QueueFull as full:
        print(full)
    except (BadOption, QueueTimeout, RateLimited) as error:
        assert_type(error, "BadOption | QueueTimeout | RateLimited")
    except FairError:
        raise


def submit(fair: Fair) -> float | None:
    job = assert_type(fair.submit_job(page, range(100), max_failures=0.1), Job)
    progress = assert_type(job.progress(), Progress)
    for failure in job.failures():
        print(failure.index, failure.error)
    return progress.rate


def total(fair: Fair, orders: list[int]) -> int:
    found = int(fair.saved(default=0))
    for order in fair.yielding(orders, state=lambda: found):  # noqa: B023
        found += order
    if fair.should_yield():
        fair.checkpoint(found)
    return found


def test_it(fair_worker: FairWorker) -> None:
    fair_worker.flood(batch=100)
    assert_type(fair_worker.assert_starts_within(1.0), float)
    assert_type(fair_worker.assert_share_at_least(0.1, "batch", seconds=1.0), float)
    done: Interrupted = fair_worker.interrupt_after(
        2, lambda: fair_worker.fair.submit_job(page, [1, 2, 3])
    )
    assert_type(done.times, int)
