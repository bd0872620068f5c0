"""Django in front of both kinds of task, in one file.

python example_project/django_app.py runserver
celery -A example_project.django_app:celery_app worker
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run by its path, too

import django
from celery import Celery
from celery.result import AsyncResult
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, JsonResponse
from django.urls import path

from celery_fair import Fair
from celery_fair.integrations.django import batch_view, interactive_view

if not settings.configured:
    settings.configure(
        DEBUG=True,
        SECRET_KEY="not a secret",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["celery_fair.integrations.django.FairConfig"],
        CELERY_BROKER_URL=os.environ.get("BROKER_URL", "redis://localhost:6379/0"),
        CELERY_RESULT_BACKEND=os.environ.get("RESULT_BACKEND", "redis://localhost:6379/1"),
        CELERY_FAIR={"batch_share": 0.2},
    )
    django.setup()

celery_app = Celery("documents")
celery_app.config_from_object(settings, namespace="CELERY")
celery_app.set_default()  # a web server's threads find their tasks' app by it
fair = Fair(celery_app)

from example_project.tasks import answer, log_usage, summarize  # noqa: E402 - they need the app


@interactive_view
def ask(request: HttpRequest) -> JsonResponse:
    """Take a question: curl -d question=why localhost:8000/questions"""
    log_usage.delay("question")  # says no kind: the view's
    return JsonResponse({"task": answer.delay(request.POST["question"]).id}, status=202)


@batch_view
def summarize_all(request: HttpRequest) -> JsonResponse:
    """Take a pile of documents: curl -d count=100 localhost:8000/summaries"""
    count = int(request.POST.get("count", 100))
    log_usage.delay("summaries")
    return JsonResponse({"tasks": [summarize.delay(n).id for n in range(count)]}, status=202)


def result(request: HttpRequest, task_id: str) -> JsonResponse:
    """Look what has become of a task."""
    found = AsyncResult(task_id, app=celery_app)
    answer = found.result if found.successful() else None
    return JsonResponse({"state": found.state, "result": answer})


urlpatterns = [
    path("questions", ask),
    path("summaries", summarize_all),
    path("results/<task_id>", result),
]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
