"""What runs inside a Celery worker: lanes that pull, one dispatcher, a sensor, and their wiring."""
