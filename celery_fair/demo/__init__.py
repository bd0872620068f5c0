"""``python -m celery_fair demo``: the same tasks on plain Celery and on celery-fair, measured."""
