"""When a batch task runs again: the delay, the budget, and what is left as Celery has it."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery, Task
from celery.exceptions import Retry

from celery_fair import Fair
from celery_fair.policy.retries import FLOOR, MEMORY_SECONDS, Bucket, backoff_seconds
from celery_fair.retries import RetryBudget
from celery_fair.task import with_fair_task

CAP = 600.0


# the delay


def test_the_delay_doubles_up_to_its_cap() -> None:
    delays = [backoff_seconds(10.0, retries, 100.0, lambda: 1.0) for retries in range(6)]
    assert delays == [10.0, 20.0, 40.0, 80.0, 100.0, 100.0]


def test_half_of_the_delay_is_drawn() -> None:
    assert backoff_seconds(10.0, 1, CAP, lambda: 0.0) == 10.0
    assert backoff_seconds(10.0, 1, CAP, lambda: 0.5) == 15.0


def test_a_task_s_own_delay_is_kept_where_it_is_longer_than_the_cap() -> None:
    assert backoff_seconds(3600.0, 5, CAP, lambda: 1.0) == 3600.0


def test_a_task_that_wants_no_delay_has_none() -> None:
    assert backoff_seconds(0.0, 5, CAP, lambda: 1.0) == 0.0


def test_any_number_of_retries_is_a_number() -> None:
    assert backoff_seconds(1.0, 10**6, CAP, lambda: 1.0) == CAP


# the bucket


def test_a_quiet_worker_s_task_retries_at_once_as_often_as_it_may() -> None:
    bucket, now = Bucket(FLOOR, 0.0, 0.0), 0.0
    for _ in range(20):  # one after the other, each after the delay of the last
        bucket, delay = bucket.taken(now, 0.0, CAP)
        assert delay is not None
        assert delay <= 60.0 / FLOOR
        now += delay


def test_first_attempts_bring_their_part() -> None:
    assert Bucket(0.0, 0.0, 0.0).fed(0.2 * 20, 0.0).tokens == pytest.approx(4.0)


def test_a_token_that_is_missing_is_waited_for() -> None:
    bucket, delay = Bucket(0.0, 0.0, 0.0).taken(0.0, 0.0, CAP)
    assert delay == pytest.approx(60.0 / FLOOR)
    assert bucket.tokens == -1.0
    assert bucket.taken(0.0, 0.0, CAP)[1] == pytest.approx(2 * 60.0 / FLOOR)


def test_a_longer_delay_of_its_own_stays_as_it_is() -> None:
    assert Bucket(0.0, 0.0, 0.0).taken(0.0, 100.0, CAP)[1] == 100.0


def test_there_is_no_retry_when_too_many_wait_for_tokens() -> None:
    bucket = Bucket(-200.0, 0.0, 0.0)
    same, delay = bucket.taken(0.0, 0.0, CAP)
    assert delay is None
    assert same == bucket
    assert bucket.taken(0.0, 10 * CAP, CAP)[1] == 10 * CAP


def test_a_burst_is_what_first_attempts_of_the_last_minute_brought() -> None:
    bucket = Bucket(FLOOR, 0.0, 0.0)
    for second in range(600):
        bucket = bucket.fed(2.0, float(second))
    assert bucket.tokens == pytest.approx(2.0 * MEMORY_SECONDS, rel=0.02)
    assert bucket.fed(0.0, 600.0 + 10 * MEMORY_SECONDS).tokens == FLOOR


def test_a_clock_that_stands_still_or_goes_back_brings_nothing() -> None:
    assert Bucket(1.0, 10.0, 0.0).fed(0.0, 5.0) == Bucket(1.0, 10.0, 0.0)


@pytest.mark.parametrize("budget", [0.1, 0.2, 0.5])
def test_a_storm_of_failures_adds_no_more_than_its_budget(budget: float) -> None:
    """Ten arrivals a second for five minutes, all of which fail, with five retries each."""
    draw = random.Random(1)
    bucket, due = Bucket(FLOOR, 0.0, 0.0), []
    arrivals = executions = 0
    for tick in range(3000):
        now = tick / 10
        arrivals += 1
        bucket = bucket.fed(budget, now)
        running = [0] + [retries for at, retries in due if at <= now]
        due = [(at, retries) for at, retries in due if at > now]
        executions += len(running)
        for retries in running:
            if retries < 5:
                base = backoff_seconds(1.0, retries, CAP, draw.random)
                bucket, delay = bucket.taken(now, base, CAP)
                if delay is not None:
                    due.append((now + delay, retries + 1))
    assert executions / arrivals <= 1 + budget + 0.05
    assert executions / arrivals >= 1 + budget / 2


# the budget of a worker


@pytest.fixture
def budget() -> RetryBudget:
    return RetryBudget(0.2, 0.0)


def test_the_budget_counts_what_it_did(budget: RetryBudget) -> None:
    for _ in range(int(FLOOR)):
        assert budget.take(0.0, 0.0, 5.0) == 0.0
    assert budget.take(0.0, 0.0, CAP) == pytest.approx(6.0)
    assert budget.take(0.0, 0.0, 5.0) is None
    assert budget.counts() == (-1.0, 1, 1)
    budget.started(100, 0.0)
    assert budget.take(0.0, 0.0, 5.0) == 0.0


def _take(budget: RetryBudget, times: int) -> None:
    for _ in range(times):
        budget.take(0.0, 0.0, 1e9)


def test_processes_share_it(budget: RetryBudget) -> None:
    """None is lost that several take at once, nor by a child that ends after one task."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_take, args=(budget, 500)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert budget.counts().tokens == FLOOR - 2000


def _die_with_it(budget: RetryBudget) -> None:
    with budget._locked():
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_that_is_killed_in_the_middle_holds_up_nobody(budget: RetryBudget) -> None:
    child = multiprocessing.get_context("fork").Process(target=_die_with_it, args=(budget,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert budget.take(0.0, 0.0, CAP) == 0.0


# the seam


class BoomError(Exception):
    pass


@pytest.fixture
def retried(app: Celery) -> Iterator[Callable[..., Any]]:
    """``retried(max_retries=…, …)(**arguments of retry)``: its countdown and ETA, in a worker."""
    fair = Fair(app, kinds={"b.*": "batch", "i.*": "interactive"})
    fair.retrying.open()

    def define(name: str = "b.task", retries: int = 0, **options: Any) -> Callable[..., Any]:
        @app.task(name=name, bind=True, shared=False, **options)
        def task(self: Any) -> None: ...

        task.push_request(
            id="1", retries=retries, called_directly=False, args=(), kwargs={}, headers={}
        )
        sent: list[dict[str, Any]] = []

        def keep(*args: Any, **options: Any) -> None:
            sent.append(options)

        app.send_task = keep

        def retry(**asked: Any) -> dict[str, Any]:
            with pytest.raises(Retry):
                task.retry(**asked)
            return sent[-1]

        retry.task = task  # type: ignore[attr-defined]
        return retry

    yield define
    fair.retrying.close()


def test_a_batch_retry_backs_off(retried: Any) -> None:
    assert 5.0 <= retried(default_retry_delay=10)()["countdown"] <= 10.0
    assert (
        40.0
        <= retried(default_retry_delay=10, retries=3, max_retries=9, name="b.2")()["countdown"]
        <= 80.0
    )


@pytest.mark.parametrize("base", [None, "custom"])
def test_it_does_so_whatever_the_task_s_base_is(retried: Any, base: str | None) -> None:
    options = {} if base is None else {"base": Task}
    assert 5.0 <= retried(default_retry_delay=10, **options)()["countdown"] <= 10.0


def test_by_position_arguments_are_what_celery_takes_them_for(retried: Any) -> None:
    task = retried(default_retry_delay=10).task
    with pytest.raises(Retry) as caught:
        task.retry((), {}, None, True, None, 3)
    assert caught.value.when == 3
    with pytest.raises(TypeError, match="positional"):
        task.retry((), {}, None, True, None, 3, 5, "one too many")
    with pytest.raises(TypeError, match="multiple values"):
        task.retry((), args=())


class OwnRetry(Task):
    """Says why it retries, which Celery's ``retry`` has no argument for."""

    def retry(self, reason: str, *more: Any, **options: Any) -> Any:
        return reason, more, options


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("is_in_front", [True, False])
def test_a_team_s_own_retry_is_called_as_it_was(
    app: Celery, enabled: bool, is_in_front: bool
) -> None:
    fair = Fair(app, enabled=enabled, kinds={"b.*": "batch"})
    base = with_fair_task(OwnRetry) if is_in_front else OwnRetry

    @app.task(name="b.own", bind=True, base=base, shared=False)
    def task(self: Any) -> None: ...

    app.finalize()
    fair.retrying.decides = enabled
    task.push_request(id="1", called_directly=False, args=(), kwargs={}, headers={})
    many = tuple(range(9))
    assert task.retry("because", *many) == ("because", many, {})
    assert task.retry(reason="because", a=1) == ("because", (), {"a": 1})


def test_one_that_goes_on_to_that_of_the_app_s_tasks_backs_off(app: Celery, retried: Any) -> None:
    class Reasoned(app.Task):
        def retry(self, reason: str, **options: Any) -> Any:
            return super().retry(**options)

    task = retried(default_retry_delay=10, base=Reasoned).task
    with pytest.raises(Retry) as caught:
        task.retry("because")
    assert 5.0 <= caught.value.when <= 10.0


def test_what_the_call_says_is_kept(retried: Any) -> None:
    retry = retried(default_retry_delay=10)
    assert retry(countdown=3)["countdown"] == 3
    eta = datetime.now(timezone.utc) + timedelta(seconds=30)
    assert retry(eta=eta)["eta"] == eta


def test_a_task_with_celery_s_own_backoff_keeps_it(retried: Any) -> None:
    assert retried(default_retry_delay=10, retry_backoff=True)()["countdown"] == 10


def test_an_interactive_retry_is_as_celery_s(retried: Any) -> None:
    assert retried("i.task", default_retry_delay=10)()["countdown"] == 10


def test_one_that_becomes_interactive_is_too(retried: Any) -> None:
    assert retried(default_retry_delay=10)(kind="interactive")["countdown"] == 10


def test_outside_a_worker_it_is_as_celery_s(retried: Any, app: Celery) -> None:
    retry = retried(default_retry_delay=10)
    Fair.of(app).retrying.close()
    assert retry()["countdown"] == 10


def _use_up(app: Celery) -> None:
    budget = Fair.of(app).retrying.budget
    while budget.take(0.0, 0.0, 1.0) is not None:
        pass


def test_without_budget_it_comes_later(retried: Any, app: Celery, monkeypatch: Any) -> None:
    retry = retried()
    monkeypatch.setattr("celery_fair.retrying.monotonic", lambda: 0.0)
    _use_up(app)
    assert retry(countdown=1)["countdown"] > 1


def _spend_all(app: Celery) -> None:
    budget = Fair.of(app).retrying.budget
    while budget.take(0.0, 0.0, CAP) is not None:
        pass


@pytest.fixture
def spent(app: Celery, monkeypatch: Any) -> Callable[[], None]:
    def spend() -> None:
        monkeypatch.setattr("celery_fair.retrying.monotonic", lambda: 0.0)
        _spend_all(app)

    return spend


def test_beyond_the_budget_the_task_fails_with_its_own_error(
    retried: Any, spent: Any, caplog: Any
) -> None:
    task = retried().task
    spent()
    with pytest.raises(BoomError):
        task.retry(exc=BoomError("secret"))
    with pytest.raises(task.MaxRetriesExceededError, match="batch_retry_budget"):
        task.retry()
    assert "batch_retry_budget is used up" in caplog.text
    assert "secret" not in caplog.text
    assert "override_max_retries" not in vars(task)


def test_one_without_max_retries_never_ends_so(retried: Any, spent: Any) -> None:
    retry = retried(max_retries=None)
    spent()
    assert retry(countdown=1)["countdown"] == CAP


def test_a_task_may_stand_outside_the_budget(retried: Any, spent: Any) -> None:
    retry = retried(fair_retry_budget=False)
    spent()
    assert retry(countdown=1)["countdown"] == 1


def test_at_max_retries_celery_decides(retried: Any, app: Celery) -> None:
    task = retried(max_retries=2, retries=2).task
    with pytest.raises(BoomError):
        task.retry(exc=BoomError())
    assert Fair.of(app).retrying.budget.counts().tokens == pytest.approx(FLOOR)


def test_eager_calls_retry_as_celery_s(app: Celery) -> None:
    fair = Fair(app, kinds={"b.*": "batch"})
    fair.retrying.open()
    tries = []

    @app.task(name="b.eager", bind=True, max_retries=2, shared=False)
    def eager(self: Any) -> str:
        tries.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(exc=BoomError())
        return "done"

    assert eager.apply().get() == "done"
    assert tries == [0, 1, 2]
    fair.retrying.close()
