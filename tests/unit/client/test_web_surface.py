"""The web integrations add no URL: nothing of celery-fair can be asked or told through them."""

from __future__ import annotations

import asyncio
import pkgutil
from typing import Any

import pytest
from celery import Celery
from flask import Flask

import celery_fair.integrations
from celery_fair import Fair
from celery_fair.integrations.asgi import FairMiddleware
from celery_fair.integrations.flask import FairFlask
from tests.unit.client.djangos import configured

override_settings = configured()

GUESSES = ["/fair", "/_fair", "/celery_fair", "/metrics", "/status", "/debug", "/admin/fair", "/"]


@pytest.mark.parametrize("path", GUESSES)
def test_flask_has_the_urls_of_the_application_alone(fair: Fair, path: str) -> None:
    plain, ours = Flask("plain", static_folder=None), Flask("ours", static_folder=None)
    FairFlask(fair, paths={"/*": "batch"}, trust_header=True).init_app(ours)
    assert list(ours.url_map.iter_rules()) == list(plain.url_map.iter_rules()) == []
    for method in ("GET", "POST", "DELETE", "PATCH"):
        assert ours.test_client().open(path, method=method).status_code == 404


@pytest.mark.parametrize("path", GUESSES)
def test_asgi_hands_every_path_to_the_application(path: str) -> None:
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    middleware = FairMiddleware(application, paths={"/*": "batch"}, trust_header=True)
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "root_path": ""}
    asyncio.run(middleware(scope, None, None))
    assert seen == [path]


def test_django_has_no_urls_models_or_commands_of_ours(app: Celery) -> None:
    """Django finds them by the names of modules beside an app's configuration."""
    found = {module.name for module in pkgutil.iter_modules(celery_fair.integrations.__path__)}
    assert not found & {"urls", "views", "admin", "models", "management", "templatetags"}


def test_no_integration_but_flowers_speaks_to_workers() -> None:
    """Remote control begins with `app.control`, and only the page behind Flower's login has it."""
    for module in pkgutil.iter_modules(celery_fair.integrations.__path__):
        if module.ispkg:
            continue
        path = f"{celery_fair.integrations.__path__[0]}/{module.name}.py"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert ".control" not in text, module.name
        assert "broadcast" not in text, module.name
