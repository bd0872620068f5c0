"""What RabbitMQ counts against one prefetch count: messages sent and not yet acknowledged."""

from __future__ import annotations


class Tally:
    """The messages of one prefetch window, by delivery tag, as the broker counts them.

    What starts with an early ack is ``leaving``: its ack is a moment away. Pool threads settle
    messages while the loop counts, so that there are only sets, whose changes are atomic.
    """

    __slots__ = ("_leaving", "_unacked", "count")

    def __init__(self, count: int = 0) -> None:
        self.count = count
        """The prefetch count that was asked for."""
        self._unacked: set[int] = set()
        self._leaving: set[int] = set()

    def __len__(self) -> int:
        return len(self._unacked)

    @property
    def left(self) -> int:
        """How many more messages may come."""
        return self.count - len(self._unacked)

    @property
    def is_spent(self) -> bool:
        """Whether nothing can be on its way: the broker has had no ack that allows for more."""
        return self.count <= len(self._unacked) + len(self._leaving)

    def add(self, delivery_tag: int) -> None:
        self._unacked.add(delivery_tag)

    def leave(self, delivery_tag: int) -> None:
        """Its ack is about to come; count it no longer."""
        if delivery_tag in self._unacked:
            self._unacked.remove(delivery_tag)
            self._leaving.add(delivery_tag)

    def settle(self, delivery_tag: int) -> None:
        """It was acknowledged or rejected."""
        self._unacked.discard(delivery_tag)
        self._leaving.discard(delivery_tag)

    def recount(self) -> None:
        """Count again what should have been acknowledged by now: a child may be slow to."""
        self._unacked |= self._leaving
        self._leaving.clear()
