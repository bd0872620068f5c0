"""Flask in front of both kinds of task.

flask --app example_project.flask_app run
celery -A example_project.flask_app:celery_app worker
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.result import AsyncResult
from flask import Flask, request

from celery_fair import Fair
from celery_fair.integrations.flask import FairFlask, batch_view, interactive_view
from example_project.tasks import answer, log_usage, summarize

celery_app = Celery(
    "documents",
    broker=os.environ.get("BROKER_URL", "redis://localhost:6379/0"),
    backend=os.environ.get("RESULT_BACKEND", "redis://localhost:6379/1"),
)
celery_app.set_default()  # a web server's threads find their tasks' app by it
fair = Fair(celery_app)

app = Flask(__name__)
FairFlask(fair).init_app(app)


@app.post("/questions")
@interactive_view
def ask() -> tuple[dict[str, Any], int]:
    """Take a question: curl -d question=why localhost:5000/questions"""
    log_usage.delay("question")  # says no kind: the view's
    return {"task": answer.delay(request.form["question"]).id}, 202


@app.post("/summaries")
@batch_view
def summarize_all() -> tuple[dict[str, Any], int]:
    """Take a pile of documents: curl -d count=100 localhost:5000/summaries"""
    count = int(request.form.get("count", 100))
    log_usage.delay("summaries")
    return {"tasks": [summarize.delay(number).id for number in range(count)]}, 202


@app.get("/results/<task_id>")
def result(task_id: str) -> dict[str, Any]:
    """Look what has become of a task."""
    found = AsyncResult(task_id, app=celery_app)
    return {"state": found.state, "result": found.result if found.successful() else None}
