"""A reply to a remote control command is small and plain, whatever runs and whatever is served."""

from __future__ import annotations

import json

LIMIT_BYTES = 8192


def test_a_reply_over_two_hundred_queues_with_long_names_is_small(site):
    names = [f"customer-{number:04}.nightly-reports.eu-central" for number in range(200)]
    fair = {"queues": {"batch": names}, "batch_max_slots": 1}
    site.app.conf.fair = fair
    worker = site.start(concurrency=2, conf={"fair": fair})
    site.block("b.until", "running", queue=names[0])
    site.journal.wait_started("running")
    with site.app.producer_or_acquire() as producer:
        for number, name in enumerate(names):
            for copy in range(3 if number == 150 else 1):
                site.send("b.late", f"{name} {copy}", queue=name, producer=producer)
    status = site.wait_status(worker, lambda now: (now["kinds"]["batch"]["backlog"] or 0) >= 202)
    batch = status["kinds"]["batch"]
    assert len(json.dumps(status)) <= LIMIT_BYTES
    assert len(batch["queues"]) + batch["queues_left_out"] == 200
    assert next(iter(batch["ready"])) == names[150]
    assert sum(batch["ready"].values()) + batch["ready_left_out"] + batch["held"] == 202


def test_what_json_cannot_carry_among_a_task_s_arguments_stops_no_reply(site):
    """One such value in a reply, and the asker sees no worker at all."""
    conf = {"accept_content": ["json", "pickle"]}
    worker = site.start(concurrency=2, conf=conf, env={"C_FORCE_ROOT": "1"})
    site.send("i.until", {1, 2}, str(site.release_path), serializer="pickle")
    site.journal.wait_started("{1, 2}")
    assert site.ask(worker)["kinds"]["interactive"]["running"] == 1
    assert site.ask(worker, "stats")["fair"]["running_interactive"] == 1
    site.release()
