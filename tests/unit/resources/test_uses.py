"""What a task uses: by its declaration, by globs, and how many tokens a call is thought to use."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from celery_fair import BadOption, Fair, FairHeader, SettingsError, fair_task
from celery_fair.resources import uses
from celery_fair.resources.uses import Uses, spare_this_thread

RESOURCES = {"openai": {"max_running": 8}, "gpu": {}}


@pytest.fixture
def app() -> Any:
    app = Celery("shop", broker="memory://", set_as_current=False)
    yield app
    fair = Fair.of(app)
    if fair is not None:
        fair.uninstall()


def header(fair: Fair, name: str, *args: Any, **options: Any) -> FairHeader | None:
    task = fair.app.tasks.get(name)
    publish_options = {**options, "task_type": task}
    fair.prepare(name, args, {}, publish_options)
    return FairHeader.read(publish_options["headers"])


def test_nothing_is_used_where_nothing_is_shared(app: Any) -> None:
    fair = Fair(app)

    @app.task(shared=False, name="answer", fair_uses="openai")
    def answer() -> None: ...

    assert not fair.resources.is_set
    assert fair.resources.uses_of("interactive", "answer", None) is None


def test_a_declaration_beats_the_globs(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES, uses={"reports.*": "gpu", "reports.plain": ["openai"]})

    @app.task(shared=False, name="reports.own", fair_uses=["openai", "gpu", "gpu"])
    def own() -> None: ...

    @app.task(shared=False, name="reports.decorated", uses="openai")
    def decorated() -> None: ...

    def used(name: str) -> Any:
        found = fair.resources.uses_of("batch", name, None)
        return found and found.names

    assert used("reports.own") == ("gpu", "openai")
    assert used("reports.decorated") == ("openai",)
    assert used("reports.plain") == ("openai",)
    assert used("reports.else") == ("gpu",)
    assert used("elsewhere") is None


def test_the_limit_of_a_kind_is_a_resource_of_all_its_tasks(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES, uses={"a": "openai"}, batch_max_running=3)
    assert fair.resources.rules["kind:batch"].max_running == 3
    assert fair.resources.uses_of("batch", "a", None) == Uses(("kind:batch", "openai"), 0)
    assert fair.resources.uses_of("batch", "b", None) == Uses(("kind:batch",), 0)
    assert fair.resources.uses_of("interactive", "b", None) is None


def test_a_name_that_there_is_not_is_an_error_with_the_nearest_one(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES, uses={"reports.*": "opennai"})

    @app.task(shared=False, name="draw", uses=["gpu", "kind:batch"])
    def draw() -> None: ...

    with pytest.raises(SettingsError) as caught:
        fair.resources.check()
    first, second = caught.value.problems
    assert first.startswith("app.conf.fair['uses']['reports.*']: there is no resource 'opennai'")
    assert first.endswith("did you mean 'openai'?")
    assert second == "uses of draw: there is no resource 'kind:batch'; there are gpu, openai"


def test_names_without_any_resource_are_an_error_too(app: Any) -> None:
    with pytest.raises(SettingsError, match="`resources` names none"):
        Fair(app, uses={"a": "openai"}).resources.check()


# -- tokens ---------------------------------------------------------------------------------------


def test_a_call_carries_the_estimate_of_its_arguments(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES)

    @app.task(shared=False, name="short", uses="openai", tokens=len)
    def short(text: str) -> None: ...

    @app.task(shared=False, name="long", uses="openai", tokens=800)
    def long(text: str) -> None: ...

    assert header(fair, "short", "four").tokens == 4
    assert header(fair, "long", "four").tokens == 800
    assert header(fair, "long", "four", tokens=1500).tokens == 1500
    assert header(fair, "unknown", "four").tokens == 0


def test_a_fair_tasks_estimate_is_no_method_of_it(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES)

    @fair_task(uses="openai", tokens=lambda text: 2 * len(text), name="doubled")
    def doubled(text: str) -> None: ...

    app.finalize()
    assert fair.resources.uses_of("batch", "doubled", None) == Uses(("openai",), 0)
    assert header(fair, "doubled", "four").tokens == 8


def test_a_worker_takes_the_calls_number_else_the_declared_one(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES)

    @app.task(shared=False, name="long", uses="openai", tokens=800)
    def long() -> None: ...

    said = FairHeader("batch", 1.0, 1.0, tokens=5)
    assert fair.resources.uses_of("batch", "long", said) == Uses(("openai",), 5)
    assert fair.resources.uses_of("batch", "long", said._replace(tokens=0)).tokens == 800


@pytest.mark.parametrize("estimate", [lambda text: text.nothing, lambda text: "many", lambda: 1])
def test_an_estimate_that_fails_is_said_once_and_fails_no_publish(
    app: Any, caplog: pytest.LogCaptureFixture, estimate: Any
) -> None:
    fair = Fair(app, resources=RESOURCES)

    @app.task(shared=False, name="short", uses="openai", tokens=estimate)
    def short(text: str) -> None: ...

    assert [header(fair, "short", "four").tokens for _ in range(3)] == [0, 0, 0]
    assert caplog.text.count("the tokens of short can't be estimated") == 1


def test_no_estimate_can_hang_in_the_threads_by_which_a_worker_lives(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop publishes the errbacks of a task whose child was killed, for instance."""
    fair = Fair(app, resources=RESOURCES)

    @app.task(shared=False, name="hangs", uses="openai", tokens=lambda: threading.Event().wait())
    def hangs() -> None: ...

    @app.task(shared=False, name="known", uses="openai", tokens=8)
    def known() -> None: ...

    found: list[int] = []

    def loop() -> None:
        spare_this_thread()
        found.extend(header(fair, name).tokens for name in ("hangs", "hangs", "known"))

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    thread.join(10)
    assert found == [0, 0, 8]
    assert caplog.text.count("the tokens of hangs aren't estimated in a worker's own threads") == 1


def test_a_task_estimates_even_in_the_loop_as_it_runs_there_under_solo(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES)

    @app.task(shared=False, name="short", uses="openai", tokens=len)
    def short(text: str) -> None: ...

    @app.task(shared=False, name="parent")
    def parent() -> int:
        return header(fair, "short", "four").tokens

    found: list[int] = []

    def loop() -> None:
        spare_this_thread()
        found.append(parent.apply().get())

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    thread.join(10)
    assert found == [4]


def test_a_slow_estimate_is_said_once(
    app: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = Fair(app, resources=RESOURCES)
    clock = iter(range(100)).__next__
    monkeypatch.setattr(uses, "monotonic", lambda: 2.0 * clock())

    @app.task(shared=False, name="short", uses="openai", tokens=len)
    def short(text: str) -> None: ...

    assert [header(fair, "short", "four").tokens for _ in range(2)] == [4, 4]
    assert caplog.text.count("the tokens of short took 2.0 s to estimate") == 1


def test_the_soft_time_limit_of_the_task_that_publishes_ends_its_estimate(app: Any) -> None:
    fair = Fair(app, resources=RESOURCES)

    def ends(text: str) -> int:
        raise SoftTimeLimitExceeded

    @app.task(shared=False, name="short", uses="openai", tokens=ends)
    def short(text: str) -> None: ...

    with pytest.raises(SoftTimeLimitExceeded):
        header(fair, "short", "four")


@pytest.mark.parametrize("tokens", [-1, True, 1.5, "8", 10**9])
def test_tokens_that_are_none_are_refused(app: Any, tokens: Any) -> None:
    fair = Fair(app, resources=RESOURCES)
    with pytest.raises(BadOption, match="a whole number of tokens"):
        header(fair, "a", tokens=tokens)
    with pytest.raises(BadOption, match="a whole number of tokens"):
        fair_task(tokens=tokens)(lambda: None)


@pytest.mark.parametrize("uses", ["", [], 7, ["a", 7]])
def test_uses_that_name_nothing_are_refused(uses: Any) -> None:
    with pytest.raises(BadOption, match="the name of a resource"):
        fair_task(uses=uses)(lambda: None)
