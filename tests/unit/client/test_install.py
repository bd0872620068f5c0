"""Installing, uninstalling, and being a guest that leaves the house as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import types
from typing import Any

import pytest
from celery import Celery, Task, current_app, signals

from celery_fair import AlreadyInstalled, Fair, NotInstalled, SettingsError, fair_task


def traces(app: Celery) -> dict[str, Any]:
    """Everything of an app that installing touches."""
    gc.collect()  # the receivers of other tests' apps, which would go at any moment
    return {
        "send_task": vars(app).get("send_task"),
        "Queues": vars(app.amqp).get("Queues"),
        "Task": app.Task,
        "worker_init": len(signals.worker_init.receivers),
        "on_after_finalize": len(app.on_after_finalize.receivers),
        "steps": set(app.steps["consumer"]),
        "of": Fair.of(app),
    }


def test_installing_reads_no_configuration(app: Celery) -> None:
    app = Celery("later")
    Fair(app)
    assert not app.configured


def test_the_configuration_may_come_after_the_fair() -> None:
    app = Celery("later")
    fair = Fair(app)
    app.config_from_object(types.SimpleNamespace(fair={"batch_share": 0.4}))
    assert fair.settings.batch_share == 0.4


def test_django_style_configuration_is_found() -> None:
    app = Celery("later")
    fair = Fair(app)
    names = types.SimpleNamespace(CELERY_FAIR={"batch_share": 0.4}, CELERY_TASK_DEFAULT_QUEUE="x")
    app.config_from_object(names, namespace="CELERY")
    assert fair.settings.batch_share == 0.4
    assert fair.queues["batch"] == ("x.batch",)


def test_the_environment_can_switch_it_off(
    app: Celery, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_FAIR__ENABLED", "false")
    Fair(app, enabled=True)
    app.send_task("work", kind="batch")
    (message,) = sent()
    assert (message.queue, message.header) == ("celery", None)


def test_a_bad_setting_stops_the_first_publish(app: Celery) -> None:
    Fair(app, batch_shre=0.4)
    with pytest.raises(SettingsError, match="did you mean 'batch_share'"):
        app.send_task("work")


def test_an_app_that_is_in_use_already_can_be_given_a_fair(eager: Celery) -> None:
    seen = []

    @eager.task(bind=True, base=Other)
    def work(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])

    eager.finalize()
    assert set(eager.amqp.queues) == {"celery"}
    Fair(eager)
    work.apply_async(kind="batch")
    assert seen == ["batch"]
    assert set(eager.amqp.queues.consume_from) == {"celery", "celery.batch"}


def test_a_fair_can_be_given_its_app_later(app: Celery) -> None:
    fair = Fair(batch_share=0.4)
    with pytest.raises(NotInstalled, match="was given no app yet"):
        _ = fair.settings
    fair.init_app(app)
    assert Fair.of(app) is fair
    assert fair.settings.batch_share == 0.4


def test_the_current_app_can_be_given_by_its_proxy(app: Celery) -> None:
    app.set_current()
    fair = Fair(current_app)
    assert fair.app is app
    assert Fair.of(current_app) is Fair.of(app) is fair


def test_installing_twice_with_equal_settings_is_once(app: Celery, sent: Any) -> None:
    first = Fair(app, batch_share=0.4)
    first.init_app(app)
    before = traces(app)
    second = Fair(app, batch_share=0.4)
    assert traces(app) == before
    assert Fair.of(app) is first
    assert second.settings is first.settings
    app.send_task("work")
    assert len(sent()) == 1


def test_installing_twice_with_other_settings_is_an_error(app: Celery) -> None:
    Fair(app, batch_share=0.4)
    with pytest.raises(AlreadyInstalled, match=r"Fair\.of\(app\).*uninstall\(\)") as caught:
        Fair(app, batch_share=0.3)
    assert caught.value.app is app


def test_one_fair_in_two_apps_is_an_error(make_app: Any) -> None:
    fair = Fair(make_app("one"))
    with pytest.raises(AlreadyInstalled):
        fair.init_app(make_app("two"))


def test_uninstalling_leaves_the_app_as_it_was(app: Celery, sent: Any) -> None:
    before = traces(app)
    fair = Fair(app)
    assert traces(app) != before
    fair.uninstall()
    assert traces(app) == before
    app.send_task("work")
    assert [m.header for m in sent()] == [None]
    Fair(app, batch_share=0.4)
    app.send_task("work")
    assert [m.header is None for m in sent()] == [False]


def test_uninstalling_under_someone_elses_wrapper_lets_calls_through(
    app: Celery, sent: Any
) -> None:
    fair = Fair(app)
    ours = app.send_task
    app.send_task = lambda *args, **options: ours(*args, **options)
    fair.uninstall()
    app.send_task("work", kind="batch")
    (message,) = sent()
    assert (message.queue, message.header) == ("celery", None)


def test_a_tracer_that_patches_the_class_after_us_sees_every_publish(
    app: Celery, fair: Fair, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    original = Celery.send_task

    def traced(self: Celery, name: str, *args: Any, **options: Any) -> Any:
        seen.append(name)
        return original(self, name, *args, **options)

    monkeypatch.setattr(Celery, "send_task", traced)
    app.send_task("work")
    assert seen == ["work"]
    assert len(sent()) == 1


def test_a_kind_follows_its_queue_through_a_tracer_that_copies_the_headers(
    app: Celery, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Sentry's integration does: a copy, with what was there among them once more."""
    Fair(app, queues={"batch": ["reports"]})
    app.conf.task_routes = {"report": {"queue": "reports"}}
    original = Celery.send_task

    def traced(self: Celery, name: str, *args: Any, headers: Any, **options: Any) -> Any:
        headers = {**headers, "trace": "1", "headers": {**headers}}
        return original(self, name, *args, headers=headers, **options)

    monkeypatch.setattr(Celery, "send_task", traced)
    app.send_task("report")
    (message,) = sent()
    assert (message.queue, message.header.kind) == ("reports", "batch")


def test_the_steps_come_with_the_worker_and_only_to_its_own_app(
    make_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = object()
    steps = types.SimpleNamespace(CONSUMER_STEPS=(step,))
    monkeypatch.setitem(sys.modules, "celery_fair.worker.steps", steps)
    mine, other, off = make_app("mine"), make_app("other"), make_app("off")
    fair = Fair(mine)
    Fair(other)
    Fair(off, enabled=False)
    assert mine.steps["consumer"] == set()
    for app in (mine, off):
        signals.worker_init.send(sender=app.WorkController.__new__(app.WorkController))
    assert mine.steps["consumer"] == {step}
    assert other.steps["consumer"] == off.steps["consumer"] == set()
    fair.uninstall()
    assert mine.steps["consumer"] == set()


def test_each_of_two_apps_gets_its_steps(make_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery < 5.7 takes a method of two instances for one receiver."""
    step = object()
    steps = types.SimpleNamespace(CONSUMER_STEPS=(step,))
    monkeypatch.setitem(sys.modules, "celery_fair.worker.steps", steps)
    apps = [make_app("one"), make_app("two")]
    fairs = [Fair(app) for app in apps]
    for app in apps:
        signals.worker_init.send(sender=app.WorkController.__new__(app.WorkController))
        assert app.steps["consumer"] == {step}
    for fair in fairs:
        fair.uninstall()


def test_a_stamp_that_bears_our_word_stays_a_stamp(app: Celery, fair: Fair, sent: Any) -> None:
    @fair_task
    def work() -> None: ...

    signature = work.s()
    signature.stamp(tenant="acme")
    signature.apply_async()
    (message,) = sent()
    assert message.headers["stamps"] == {"tenant": "acme"}
    assert message.header.tenant is None


def test_headers_of_the_caller_stay(app: Celery, fair: Fair, sent: Any) -> None:
    own = {"trace": "x"}
    app.send_task("work", headers=own)
    (message,) = sent()
    assert message.headers["trace"] == "x"
    assert own == {"trace": "x"}


# -- eager (S22) ----------------------------------------------------------------------------------


@pytest.fixture
def eager(make_app: Any) -> Celery:
    app = make_app(task_always_eager=True, task_eager_propagates=True)
    # Nobody may ask it: it doesn't exist.
    app.conf.broker_url = "redis://127.0.0.1:1/0"
    return app


class Other(Task):
    """A base class that isn't the app's own."""


@pytest.mark.parametrize("base", [None, Other])
@pytest.mark.parametrize("mark", ["fair_task", "app.task"])
def test_eager_calls_inherit_and_ask_no_broker(eager: Celery, base: Any, mark: str) -> None:
    Fair(eager)
    decorate = fair_task if mark == "fair_task" else eager.task
    seen = []

    @decorate(bind=True, base=base, name="child")
    def child(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])

    @decorate(bind=True, base=base, name="parent")
    def parent(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])
        child.delay()
        child.apply_async(kind="interactive")

    eager.finalize()
    parent.apply_async(kind="batch")
    parent.delay()
    assert seen == ["batch", "batch", "interactive"] + ["interactive"] * 3


@pytest.mark.parametrize(
    ("mark", "base"), [("fair_task", None), ("fair_task", Other), ("app.task", None)]
)
def test_tasks_of_modules_that_are_imported_later_inherit_too(
    eager: Celery, mark: str, base: Any
) -> None:
    Fair(eager)
    eager.finalize()
    seen = []

    @(fair_task if mark == "fair_task" else eager.task)(bind=True, base=base)
    def late(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])

    late.apply_async(kind="batch")
    assert seen == ["batch"]


def test_an_eager_task_is_nearer_than_the_request_around_it(eager: Celery) -> None:
    fair = Fair(eager)
    seen = []

    @fair_task(bind=True)
    def child(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])

    @fair_task(kind="batch")
    def parent() -> None:
        child.delay()

    with fair.inherit("interactive"):
        parent.delay()
        child.delay()
    assert seen == ["batch", "interactive"]


def test_an_eager_retry_keeps_the_kind(eager: Celery) -> None:
    eager.conf.task_eager_propagates = False
    Fair(eager)
    seen = []

    @fair_task(bind=True)
    def again(self: Any) -> None:
        seen.append(self.request.headers["fair"].split()[0])
        if len(seen) < 3:
            self.retry(countdown=0)

    again.apply_async(kind="batch")
    assert seen == ["batch"] * 3


def test_switched_off_eager_calls_take_a_kind_too(eager: Celery) -> None:
    Fair(eager, enabled=False)

    @fair_task(bind=True)
    def work(self: Any) -> Any:
        return self.request.headers

    assert work.apply_async(kind="batch").get() is None


# -- importing ------------------------------------------------------------------------------------


def test_importing_does_nothing_and_needs_no_framework() -> None:
    """In an interpreter of its own, where what is optional can't be imported at all."""
    program = textwrap.dedent(
        """
        import socket, sys, threading

        blocked = {"django", "flask", "rich", "flower", "prometheus_client", "redis", "fakeredis"}

        class Block:
            def find_spec(self, name, *args):
                if name.partition(".")[0] in blocked:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Block())
        import celery, celery.signals
        receivers = {n: len(s.receivers or ()) for n, s in vars(celery.signals).items()
                     if hasattr(s, "receivers")}
        def refuse(*args, **kwargs):
            raise AssertionError("a socket")
        socket.socket.connect = refuse
        import celery_fair
        from celery_fair import Fair, fair_task
        app = celery.Celery("x", broker="memory://")
        assert threading.active_count() == 1
        assert receivers == {n: len(s.receivers or ()) for n, s in vars(celery.signals).items()
                             if hasattr(s, "receivers")}
        assert "send_task" not in vars(app)
        Fair(app)
        app.send_task("work", kind="batch")
        assert not any(name.startswith("celery_fair.worker") for name in sys.modules)
        assert not any(name.startswith("celery_fair.cli") for name in sys.modules)
        print("fine")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "fine\n", done.stderr
