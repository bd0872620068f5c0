"""Celery apps that the workers under test run."""
