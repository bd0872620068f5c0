"""pytest-celery's set-up with local processes: what its nodes promise holds without Docker."""

from __future__ import annotations

from pytest_celery.vendors.worker.tasks import add

TIMEOUT_SECONDS = 20


def test_a_task_goes_round(celery_setup):
    assert add.s(2, 3).apply_async().get(timeout=TIMEOUT_SECONDS) == 5
    celery_setup.worker.assert_log_exists("succeeded in")


def test_a_restarted_worker_goes_on(celery_setup):
    worker = celery_setup.worker
    before = worker.container.process.pid
    worker.restart()
    assert worker.container.process.pid != before
    assert add.s(2, 3).apply_async().get(timeout=TIMEOUT_SECONDS) == 5
    assert worker.hostname() in worker.logs()


def test_what_was_queued_while_the_worker_was_dead_is_run_by_the_next(celery_setup):
    worker = celery_setup.worker
    worker.kill()
    assert worker.container.status == "exited"
    result = add.s(2, 3).apply_async()
    worker.restart()
    assert result.get(timeout=TIMEOUT_SECONDS) == 5
