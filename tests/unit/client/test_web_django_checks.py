"""What the doctor finds in an app, as system checks of Django."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair
from tests.unit.cli.conftest import no_shared_tasks  # noqa: F401 - of pytest's plugins
from tests.unit.client.djangos import configured

override_settings = configured()

from django.core import checks  # noqa: E402 - they need the settings

from celery_fair.integrations.django_checks import check_app, check_notes, find_fair  # noqa: E402


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


@pytest.fixture
def project(app: Celery, fair: Fair) -> Any:
    """Settings that name an app with a task that nobody gave a kind."""

    @app.task(name="shop.report", shared=False)
    def report() -> None:
        pass

    scope = override_settings(FAIR_APP=app)
    with scope:
        yield app


def test_a_warning_of_the_doctor_is_one_of_django(project: Celery) -> None:
    (message,) = check_app()
    assert (message.id, message.level) == ("celery_fair.F001", checks.WARNING)
    assert message.msg == "1 task has no kind: shop.report"
    assert "@fair_task(kind=…)" in message.hint


def test_notes_are_for_the_check_before_a_deployment(project: Celery) -> None:
    assert ids(check_notes()) == ["celery_fair.F011"]


def test_a_check_is_silenced_by_its_id(project: Celery) -> None:
    (message,) = check_app()
    with override_settings(SILENCED_SYSTEM_CHECKS=["celery_fair.F001"]):
        assert message.is_silenced()


def test_an_app_in_order_has_no_message(app: Celery, fair: Fair) -> None:
    with override_settings(FAIR_APP=app):
        assert check_app() == []


def test_looking_opens_no_connection(project: Celery, monkeypatch: Any) -> None:
    def connect(self: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("kombu.Connection.connect", connect)
    monkeypatch.setattr("kombu.Connection.channel", connect)
    assert ids(check_app()) == ["celery_fair.F001"]


@pytest.mark.parametrize("path", ["shopping.celery:app", "shopping.celery.app"])
def test_the_app_may_be_named_by_its_path(project: Celery, monkeypatch: Any, path: str) -> None:
    module: Any = types.ModuleType("shopping.celery")
    module.app = project
    monkeypatch.setitem(sys.modules, "shopping", types.ModuleType("shopping"))
    monkeypatch.setitem(sys.modules, "shopping.celery", module)
    with override_settings(FAIR_APP=path):
        assert ids(check_app()) == ["celery_fair.F001"]


@pytest.mark.parametrize("settings", ["shopping.settings", "shopping.settings.production"])
def test_the_app_of_celerys_guide_is_found_if_it_is_there(
    project: Celery, monkeypatch: Any, settings: str
) -> None:
    module: Any = types.ModuleType("shopping.celery")
    module.app = project
    monkeypatch.setitem(sys.modules, "shopping.celery", module)
    with override_settings(FAIR_APP=None, SETTINGS_MODULE=settings):
        assert find_fair() is Fair.of(project)
        monkeypatch.delitem(sys.modules, "shopping.celery")
        assert find_fair() is None
        assert check_app() == check_notes() == []


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("nowhere.celery:app", "expected an app or its path"),
        ("sys.path", "expected a Celery app, got list"),
        (Celery("plain", set_as_current=False), "expected an app with a Fair"),
    ],
)
def test_an_app_that_cannot_be_had_is_an_error(named: Any, words: str) -> None:
    with override_settings(FAIR_APP=named):
        (message,) = check_app()
    assert (message.id, message.level) == ("celery_fair.E003", checks.ERROR)
    assert words in message.msg


def test_tasks_that_cannot_be_imported_are_an_error_and_the_rest_is_looked_at(
    project: Celery,
) -> None:
    project.conf.imports = ["nowhere.tasks"]
    assert ids(check_app()) == ["celery_fair.F022", "celery_fair.F001"]


def test_bad_settings_are_told_once(make_app: Any) -> None:
    app = make_app()
    Fair(app, batch_share=2.0)
    with override_settings(FAIR_APP=app):
        assert ids(check_app()) == ["celery_fair.F009"]
        with override_settings(CELERY_FAIR={"batch_share": 2.0}):
            assert check_app() == []


def test_the_checks_are_registered_under_our_tag(project: Celery) -> None:
    from django.apps import apps

    from celery_fair.integrations.django import FairConfig

    FairConfig("celery_fair.integrations.django", sys.modules["celery_fair.integrations.django"])
    before = set(checks.registry.registry.registered_checks)
    deployed = set(checks.registry.registry.deployment_checks)
    try:
        FairConfig.ready(apps)
        assert "celery_fair" in checks.registry.registry.tags_available()
        assert ids(checks.run_checks(tags=["celery_fair"])) == ["celery_fair.F001"]
        deploy = checks.run_checks(tags=["celery_fair"], include_deployment_checks=True)
        assert sorted(ids(deploy)) == ["celery_fair.F001", "celery_fair.F011"]
    finally:
        checks.registry.registry.registered_checks = before
        checks.registry.registry.deployment_checks = deployed
