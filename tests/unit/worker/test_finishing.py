"""How a channel of Redis is left."""

from __future__ import annotations

from celery_fair.worker import internals


class Channel:
    """One with a BRPOP in flight, whose reader is interrupted by a signal's handler."""

    _in_poll = True
    reads = 0

    def _brpop_read(self):
        self.reads += 1
        internals.finish_redis_channel(self)


def test_a_cold_shutdown_in_the_midst_of_a_warm_one_takes_no_reply_from_it():
    channel = Channel()
    internals.finish_redis_channel(channel)
    assert channel.reads == 1
    internals.finish_redis_channel(channel)
    assert channel.reads == 2
