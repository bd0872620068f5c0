"""Django in front of both kinds of task, in one file.

python example_project/django_app.py runserver
celery -A example_project.django_app:celery_app worker
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parents[1]))  # run by its path, too

import django
from celery import Celery
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path

from celery_fair import Fair
from celery_fair.integrations.django import interactive_view, jobs_urls
from example_project import service
from example_project.streams import events

if not settings.configured:
    settings.configure(
        DEBUG=True,
        SECRET_KEY="not a secret",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        LOGGING={"version": 1, "loggers": {"django.server": {"level": "WARNING"}}},
        MIDDLEWARE=[
            "celery_fair.integrations.django.fair_middleware",  # answers QueueFull
            f"{__name__}.bad_requests",
        ],
        INSTALLED_APPS=["celery_fair.integrations.django.FairConfig"],
        CELERY_BROKER_URL=os.environ.get("BROKER_URL", "redis://localhost:6379/0"),
        CELERY_RESULT_BACKEND=os.environ.get("RESULT_BACKEND", "redis://localhost:6379/1"),
        CELERY_FAIR=service.FAIR,
        FAIR_TRUST_HEADER=["tenant"],  # a real service asks its login (FAIR_TENANT)
    )
    django.setup()

celery_app = Celery("documents")
celery_app.config_from_object(settings, namespace="CELERY")
celery_app.set_default()  # a web server's threads find their tasks' app by it
fair = Fair(celery_app)
workers = service.Status(celery_app)


def page(request: HttpRequest) -> FileResponse:
    return FileResponse(service.PAGE.open("rb"), content_type="text/html")


@interactive_view
def ask(request: HttpRequest) -> JsonResponse:
    return JsonResponse(service.ask(sent(request)), status=202)


def answer(request: HttpRequest, task_id: UUID) -> JsonResponse:
    return JsonResponse(service.answer_of(celery_app, str(task_id)))


def stream(request: HttpRequest, task_id: UUID) -> StreamingHttpResponse:
    found = events(str(task_id), request.headers.get("Last-Event-ID"))
    headers = {"Cache-Control": "no-cache"}
    return StreamingHttpResponse(found, content_type="text/event-stream", headers=headers)


def status(request: HttpRequest) -> JsonResponse:
    return JsonResponse(workers.get())


def sent(request: HttpRequest) -> object:
    return service.read(request.content_type, request.body)


def bad_requests(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """A middleware: what the service can't use is answered with a sentence."""

    def serve(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    def process_exception(request: HttpRequest, error: Exception) -> JsonResponse | None:
        bad = isinstance(error, service.BadRequest)
        return JsonResponse({"error": str(error)}, status=400) if bad else None

    serve.process_exception = process_exception
    return serve


urlpatterns = [
    path("", page),
    path("ask", ask),
    path("ask/<uuid:task_id>", answer),
    path("ask/<uuid:task_id>/stream", stream),
    path("status", status),
    *jobs_urls(fair, "jobs", **service.JOBS),
]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
