"""What a running task says: how much it has used, and that a resource has refused it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from celery import Celery

from celery_fair import BadOption, Fair, RateLimited
from celery_fair.errors import StateAway
from celery_fair.resources import refused
from celery_fair.resources.charging import LEASE, WANT

RESOURCES = {
    "openai": {"tokens_per_minute": 6000, "requests_per_minute": 60},
    "gpu": {"max_running": 2},
}


class Store:
    """Hears what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.away = False

    def charge(self, resource: str, tokens: int, requests: int) -> None:
        self._hear((resource, tokens, requests))

    def slow_down(self, resource: str, retry_after: float | None) -> None:
        self._hear((resource, retry_after))

    def _hear(self, said: Any) -> None:
        if self.away:
            raise StateAway
        self.said.append(said)


@pytest.fixture
def fair() -> Any:
    app = Celery("shop", broker="memory://", set_as_current=False)
    fair = Fair(app, resources=RESOURCES, uses={"answer": "openai", "draw": ["gpu", "openai"]})
    fair.resources._store = Store()
    yield fair
    fair.uninstall()


def nothing() -> None:
    """A task."""


class Running:
    """A task of that name as it runs in a worker, with what was charged when it started."""

    def __init__(self, fair: Fair, name: str, tokens: int = 0, *, lease: bool = True) -> None:
        app = fair.app
        self.task = app.tasks.get(name) or app.task(shared=False, name=name)(nothing)
        names = fair.resources.using.names_of(name, None)
        info = {LEASE: "l1", WANT: ["interactive", names, tokens]} if lease else {}
        self.request = {"delivery_info": info, "called_directly": False}
        self.task.app.finalize()

    def __enter__(self) -> Any:
        from celery._state import _task_stack

        self.task = self.task.app.tasks[self.task.name]
        self.task.push_request(**self.request)
        _task_stack.push(self.task)
        return self.task

    def __exit__(self, *_: Any) -> None:
        from celery._state import _task_stack

        _task_stack.pop()
        self.task.pop_request()


def said(fair: Fair) -> list[Any]:
    return fair.resources._store.said


def test_the_first_charge_replaces_the_estimate_and_more_add_up(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800):
        fair.charge(tokens=1000)
        fair.charge(tokens=50)
    assert said(fair) == [("openai", 200, 0), ("openai", 50, 0)]


def test_what_was_not_used_is_given_back(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800):
        fair.charge("openai", tokens=300)
    assert said(fair) == [("openai", -500, 0)]


def test_a_task_is_one_request_unless_it_says_more(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800):
        fair.charge(requests=3)
        fair.charge(tokens=800)
    assert said(fair) == [("openai", 0, 2)]


def test_each_attempt_has_an_estimate_of_its_own(fair: Fair) -> None:
    for _ in range(2):
        with Running(fair, "answer", tokens=800):
            fair.charge(tokens=900)
    assert said(fair) == [("openai", 100, 0)] * 2


def test_what_was_charged_nothing_when_it_started_is_charged_with_all(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800, lease=False):
        fair.charge(tokens=900)
    assert said(fair) == [("openai", 900, 0)]


def test_each_budget_that_a_task_uses_is_charged_and_each_resource_slowed(fair: Fair) -> None:
    with Running(fair, "draw", tokens=5):
        fair.charge(tokens=10)
        fair.slow_down(retry_after=3)
    assert said(fair) == [("openai", 5, 0), ("gpu", 3.0), ("openai", 3.0)]


def test_outside_of_a_task_a_resource_is_named_and_charged_with_all(fair: Fair) -> None:
    fair.charge("openai", tokens=70)
    fair.slow_down("openai")
    assert said(fair) == [("openai", 70, 0), ("openai", None)]
    with pytest.raises(BadOption, match="as no task runs here"):
        fair.charge(tokens=70)


def test_a_task_that_uses_nothing_is_charged_with_nothing(fair: Fair) -> None:
    with Running(fair, "other"):
        fair.charge(tokens=70)
    assert said(fair) == []


def test_a_misspelt_resource_is_an_error(fair: Fair) -> None:
    with pytest.raises(BadOption, match="one of gpu, openai; did you mean 'openai'"):
        fair.charge("opnai", tokens=1)


def test_a_task_that_used_nothing_gets_its_estimate_back(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800):
        fair.charge(tokens=0)
        fair.charge(tokens=70)
    assert said(fair) == [("openai", -800, 0), ("openai", 70, 0)]


def test_what_a_client_doesnt_tell_leaves_the_estimate(fair: Fair) -> None:
    with Running(fair, "answer", tokens=800):
        fair.charge(tokens=None, requests=2)
        fair.charge(tokens=900)
    assert said(fair) == [("openai", 0, 1), ("openai", 100, 0)]


@pytest.mark.parametrize("tokens", [1.5, True, "7", float("nan"), 10**9, -(10**400)])
def test_a_charge_is_a_whole_number(fair: Fair, tokens: Any) -> None:
    with pytest.raises(BadOption, match="a whole number"):
        fair.charge("openai", tokens=tokens)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), True, "7"])
def test_a_time_to_stay_away_is_seconds(fair: Fair, seconds: Any) -> None:
    with pytest.raises(BadOption, match="seconds from 0"):
        fair.slow_down("openai", retry_after=seconds)


def test_no_task_fails_for_a_redis_that_is_away(fair: Fair) -> None:
    fair.resources._store.away = True
    fair.charge("openai", tokens=70)
    fair.slow_down("openai")


def test_where_no_resource_is_set_both_do_nothing() -> None:
    fair = Fair(Celery("shop", broker="memory://", set_as_current=False))
    fair.charge(tokens=70)
    fair.slow_down("openai", retry_after=3)
    fair.uninstall()


def test_the_error_of_a_refusal_travels() -> None:
    error = pickle.loads(pickle.dumps(RateLimited(20, "openai")))
    assert (error.retry_after, error.resource) == (20, "openai")
    assert str(error).startswith("refused by openai for 20 s: ")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [(20, 20.0), ("7", 7.0), (10**9, 3600.0), (float("inf"), 3600.0), (None, None), (-1, None),
     ("Mon, 30 Nov 2026 12:00:00 GMT", None), (float("nan"), None), (10**400, None)],
)  # fmt: skip
def test_a_refusal_says_seconds_or_nothing(
    fair: Fair, retry_after: Any, seconds: float | None
) -> None:
    error = RateLimited(retry_after, "openai")
    assert str(error)
    refused.tell(fair, error)
    assert said(fair) == [("openai", seconds)]
