"""Orders that operators give to running workers, and how they converge; no clock, no broker."""

from __future__ import annotations

from celery_fair.steering.names import (
    DRAIN,
    EVERYBODY,
    PAUSE,
    SET,
    PauseName,
    pause_name,
    pause_of,
    set_name,
    setting_of,
)
from celery_fair.steering.orders import Malformed, Order, Orders, Version
from celery_fair.steering.pauses import Pause, pause_span

__all__ = (
    "DRAIN",
    "EVERYBODY",
    "PAUSE",
    "SET",
    "Malformed",
    "Order",
    "Orders",
    "Pause",
    "PauseName",
    "Version",
    "pause_name",
    "pause_of",
    "pause_span",
    "set_name",
    "setting_of",
)
