"""``tests.apps.mixed`` as it behaves on RabbitMQ >= 4: prefetch belongs to each consumer."""

from __future__ import annotations

from kombu.transport import pyamqp

from tests.apps import mixed

pyamqp.Transport.qos_semantics_matches_spec = lambda self, connection: True

app = mixed.app
