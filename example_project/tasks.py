"""The tasks: an answer that someone watches, and summaries in bulk. Both ask the same model."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx
from celery import Task

from celery_fair import QueueTimeout, fair_task, job_task
from celery_fair.integrations.httpx import FairTransport
from celery_fair.integrations.rate_limits import RateLimitTransport
from example_project.streams import say

MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:8001")


class ModelBusy(Exception):  # noqa: N818
    """The model's own limit: it answered 429."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__(retry_after_seconds)  # as `args`, of which a result is read back
        self.retry_after_seconds = retry_after_seconds


class Watched(Task):
    """A task that tells whoever watches how it failed, even if it never ran."""

    def on_failure(self, exc: Exception, task_id: str, *_: Any) -> None:
        sources = {QueueTimeout: "scheduler", ModelBusy: "model"}
        say(task_id, "failed", source=sources.get(type(exc), "task"))


@fair_task(kind="interactive", uses="model", bind=True, base=Watched, max_retries=5)
def answer(self: Task, question: str) -> str:
    """Answer a question, a word at a time: someone reads along."""
    say(self.request.id, "started")
    text = ""
    try:
        for piece in ask_model(question, tokens=39):
            say(self.request.id, "piece", text=piece)
            text += piece
    except ModelBusy as busy:
        say(self.request.id, "retrying", seconds=busy.retry_after_seconds)
        raise self.retry(exc=busy, countdown=busy.retry_after_seconds) from busy
    say(self.request.id, "done")
    return text


@job_task(uses="model")
def summarize_document(document: int) -> str:
    """Summarize one document of a pile; it may take until tonight."""
    prompt = f"Summarize document {document}"
    for _ in range(5):
        try:
            return "".join(ask_model(prompt, tokens=60))
        except ModelBusy as busy:
            time.sleep(busy.retry_after_seconds)
    return "".join(ask_model(prompt, tokens=60))


def ask_model(prompt: str, tokens: int) -> Iterator[str]:
    """Yield what the model says, piece by piece; raises `ModelBusy`."""
    asked = {"model": "stand-in", "stream": True, "max_tokens": tokens}
    asked["messages"] = [{"role": "user", "content": prompt}]
    with model().stream("POST", "/v1/chat/completions", json=asked) as reply:
        if reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise ModelBusy(float(reply.headers.get("Retry-After", 1)))
        reply.raise_for_status()
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                part = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
                yield part.get("content", "")


@functools.cache
def model() -> httpx.Client:
    """The process's client, made at first use: a pool must not be forked."""
    transport = FairTransport(interactive=connections(6), batch=connections(4))
    watched = RateLimitTransport(transport, "model")  # a 429 slows all workers down, batch first
    return httpx.Client(base_url=MODEL_URL, transport=watched, timeout=60)


def connections(most: int) -> httpx.HTTPTransport:
    return httpx.HTTPTransport(limits=httpx.Limits(max_connections=most))
