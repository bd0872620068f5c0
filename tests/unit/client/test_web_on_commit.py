"""What Celery's Django tasks publish at a commit is as if it had been published at the call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.contrib.django.task import DjangoTask

from celery_fair import Fair, fair_task, inherit_kind
from tests.unit.client.djangos import configured


@pytest.fixture
def transaction() -> Iterator[Any]:
    configured()
    from django.db import connection, transaction

    yield transaction
    connection.close()


@pytest.fixture
def app(make_app: Any) -> Celery:
    """An app as it is under Celery's Django fixup."""
    app: Celery = make_app()
    app.task_cls = "celery.contrib.django.task:DjangoTask"
    Fair(app)
    return app


def whose(sent: Any) -> list[tuple[str | None, str | None, str | None]]:
    return [(m.kind, m.header.tenant, m.header.request_id) for m in sent()]


def test_it_keeps_what_the_blocks_around_the_call_said(
    app: Celery, sent: Any, transaction: Any
) -> None:
    @app.task
    def mail(to: int, cc: int = 0) -> None: ...

    with transaction.atomic():
        with Fair.inherit("batch", tenant="acme", request_id="r1"):
            mail.delay_on_commit(1, cc=2)
            mail.apply_async_on_commit((1,), {"cc": 2}, tenant="other")
        with Fair.kind("batch"):
            mail.delay_on_commit(1)
        assert sent() == []
    assert whose(sent) == [
        ("batch", "acme", "r1"),
        ("batch", "other", "r1"),
        ("batch", None, None),
    ]


def test_the_code_around_the_commit_says_nothing(app: Celery, sent: Any, transaction: Any) -> None:
    @app.task
    def mail() -> None: ...

    asked = Fair.inherit("interactive", tenant="other")
    with Fair.inherit("batch", tenant="acme"), transaction.atomic(), asked:
        mail.delay_on_commit()
    assert whose(sent) == [("interactive", "other", None)]


def test_what_is_rolled_back_is_never_published(app: Celery, sent: Any, transaction: Any) -> None:
    @app.task
    def mail() -> None: ...

    with transaction.atomic():
        mail.delay_on_commit()
        transaction.set_rollback(True)
    assert sent() == []


def noop() -> None: ...


class Audited(DjangoTask):
    """A team's own base class, with its own way."""

    audited: list[str]

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        type(self).audited = [self.name]
        super().delay_on_commit(*args, **kwargs)


@pytest.mark.parametrize("how", ["app.task(base=)", "shared", "task_cls"])
def test_a_teams_own_task_class_does_too(
    make_app: Any, sent: Any, transaction: Any, how: str
) -> None:
    app = make_app()
    if how == "task_cls":
        app.task_cls = Audited
    Fair(app)
    if how == "shared":
        app.set_current()
        mail = fair_task(base=Audited, name="mail")(noop)
    else:
        mail = app.task(name="mail", **({} if how == "task_cls" else {"base": Audited}))(noop)
    app.finalize()
    with transaction.atomic(), inherit_kind("batch"):
        mail.delay_on_commit()
        mail.apply_async_on_commit()
    assert [m.kind for m in sent()] == ["batch", "batch"]
    assert mail.audited == ["mail"]


def test_a_task_that_knows_no_transactions_gets_none(make_app: Any) -> None:
    app = make_app()
    Fair(app)
    assert not hasattr(app.task(noop), "delay_on_commit")


SETTINGS = """
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["celery_fair.integrations.django.FairConfig"]
CELERY_BROKER_URL = "memory://"
CELERY_FAIR = {"batch_share": 0.3}
"""

PROJECT = """
from celery import Celery, shared_task, signals
from celery_fair import Fair

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
fair = Fair(app)

@shared_task
def mail(): ...

import django
django.setup()
from django.core.management import call_command
from django.db import transaction

call_command("check")
signals.after_task_publish.connect(lambda **m: print(m["headers"]["fair"]), weak=False)
with transaction.atomic():
    with fair.inherit("batch", tenant="acme"):
        mail.delay_on_commit()
    print("committing with", fair.settings.batch_share)
"""


def test_a_project_as_celerys_pages_on_django_have_it(tmp_path: Path) -> None:
    """Celery gives it the task class by itself, by the name of its settings."""
    (tmp_path / "project_settings.py").write_text(SETTINGS, encoding="utf-8")
    environment = {"DJANGO_SETTINGS_MODULE": "project_settings", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROJECT],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    said, published = done.stdout.splitlines()[-2:]
    assert said == "committing with 0.3"
    assert published.startswith("batch ")
    assert published.endswith('{"tenant":"acme"}')
