"""What can be asked of a job, as JSON."""

from __future__ import annotations

import json
from dataclasses import fields

from celery_fair.jobs.progress import Band, Progress

PROGRESS = Progress(
    id="j", task="shop.summarize", kind="batch", state="running", reason=None, submitted=3,
    total=None, submitting=True, done=1, failed=0, running=1, rate=2.0, eta=Band(1.0, 2.0),
    chunk_items=1, created_at=1.0, first_at=2.0, last_at=3.0, producer_at=3.0, asked_at=4.0,
)  # fmt: skip


def test_all_of_it_is_json_and_the_band_has_names():
    said = json.loads(json.dumps(PROGRESS.as_dict()))
    assert said.keys() == {field.name for field in fields(Progress)}
    assert said["eta"] == {"low": 1.0, "high": 2.0}
    assert said["total"] is None
