"""Interactive Celery tasks stop waiting behind batch work, and batch keeps a guaranteed share."""

from __future__ import annotations

__version__ = "0.1.0"
