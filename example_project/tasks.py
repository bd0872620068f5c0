"""The tasks of both front ends: a question that someone waits for, and summaries in bulk."""

from __future__ import annotations

import time

from celery_fair import fair_task


@fair_task(kind="interactive")
def answer(question: str) -> str:
    """Answer a question; someone looks at a spinner meanwhile."""
    time.sleep(0.2)
    return f"You asked {question!r}, and the answer is 42."


@fair_task(kind="batch")
def summarize(document: int) -> str:
    """Summarize a document; it may take until tonight."""
    time.sleep(2)
    log_usage.delay("summary")
    return f"Document {document} is about documents."


@fair_task
def log_usage(what: str) -> None:
    """Note what was used. It says no kind, so it has that of whoever publishes it."""
    time.sleep(0.01)
