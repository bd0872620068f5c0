"""The figures that celery-fair promises, measured beside stock Celery. See docs/benchmarks.md."""
