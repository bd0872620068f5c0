"""``tests.apps.mixed`` with an interactive task that waits for a batch one of its own."""

from __future__ import annotations

import os

from tests.apps import mixed

app = mixed.app

if "BROKER" in os.environ:
    from celery_fair.worker import inversions

    inversions.SUSPECT_SECONDS = 1.0  # tests needn't wait for longer to see what comes then

    @app.task(name="i.ask", shared=False)
    def ask(seconds):
        child = app.send_task("b.sleep", ["child"])
        return child.get(timeout=seconds, disable_sync_subtasks=False)
