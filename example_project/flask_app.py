"""Flask in front of both kinds of task.

flask --app example_project.flask_app run
celery -A example_project.flask_app:celery_app worker
"""

from __future__ import annotations

import logging
import os
from typing import Any
from uuid import UUID

from celery import Celery
from flask import Flask, Response, request, send_file

from celery_fair import Fair
from celery_fair.integrations.flask import FairFlask, interactive_view, jobs_blueprint
from example_project import service
from example_project.streams import events

celery_app = Celery(
    "documents",
    broker=os.environ.get("BROKER_URL", "redis://localhost:6379/0"),
    backend=os.environ.get("RESULT_BACKEND", "redis://localhost:6379/1"),
)
celery_app.set_default()  # a web server's threads find their tasks' app by it
fair = Fair(celery_app, **service.FAIR)
workers = service.Status(celery_app)

logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line a request hides the rest

app = Flask(__name__)
# Whoever calls says whose request it is; a real service asks its login.
FairFlask(fair, trust_header=["tenant"]).init_app(app)
app.register_blueprint(jobs_blueprint(fair, **service.JOBS), url_prefix="/jobs")


@app.get("/")
def page() -> Response:
    return send_file(service.PAGE)


@app.post("/ask")
@interactive_view
def ask() -> tuple[dict[str, Any], int]:
    return service.ask(sent()), 202


@app.get("/ask/<uuid:task_id>")
def answer(task_id: UUID) -> dict[str, Any]:
    return service.answer_of(celery_app, str(task_id))


@app.get("/ask/<uuid:task_id>/stream")
def stream(task_id: UUID) -> Response:
    found = events(str(task_id), request.headers.get("Last-Event-ID"))
    return Response(found, mimetype="text/event-stream", headers={"Cache-Control": "no-cache"})


@app.get("/status")
def status() -> dict[str, Any]:
    return workers.get()


def sent() -> object:
    return service.read(request.mimetype, request.get_data())


@app.errorhandler(service.BadRequest)
def bad_request(error: service.BadRequest) -> tuple[dict[str, str], int]:
    return {"error": str(error)}, 400
