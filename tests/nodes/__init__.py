"""Celery workers for tests, as child processes."""
