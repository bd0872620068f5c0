"""What can be asked of a job, as JSON, and what it says of a producer."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from celery_fair.jobs.progress import Progress
from tests.unit.jobs.progresses import NOW, progress


def test_all_of_it_is_json_and_the_band_has_names():
    said = json.loads(json.dumps(progress(reason="by ann@ops").as_dict()))
    assert said.keys() == {field.name for field in fields(Progress)}
    assert said["eta"] == {"low": 240.0, "high": 360.0}
    assert said["reason"] == "by ann@ops"
    assert progress(eta=None).as_dict()["eta"] is None


@pytest.mark.parametrize(
    ("changes", "silent"),
    [
        ({"submitting": True, "producer_at": NOW - 121}, True),
        ({"submitting": True, "producer_at": NOW - 119}, False),
        ({"submitting": True, "producer_at": None}, True),  # none since it was made, 600 s ago
        ({"submitting": False, "producer_at": NOW - 500}, False),
        ({"submitting": True, "producer_at": NOW - 500, "state": "paused"}, True),
        ({"submitting": True, "producer_at": NOW - 500, "state": "cancelled"}, False),
    ],
)
def test_a_producer_that_was_not_heard_of_and_has_not_ended_is_silent(changes, silent):
    assert progress(**changes).is_producer_silent is silent
