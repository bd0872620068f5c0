"""``tests.apps.mixed`` on an SQLAlchemy transport that looks at its tables more than once a second.

kombu's hands its transport options to SQLAlchemy, so there the interval can't be set by an option.
"""

from __future__ import annotations

from kombu.transport.sqlalchemy import Transport

from tests.apps import mixed
from tests.brokers.broker import POLL_SECONDS

Transport.polling_interval = POLL_SECONDS

app = mixed.app
