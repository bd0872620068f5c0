"""How long a worker keeps what another could run."""

from __future__ import annotations

HOARD_SECONDS = 1.0
"""How long a message may be held that another worker could run."""

PERHAPS_SECONDS = 5.0
"""The same where the others' free slots are the reserve, which batch may take if it is owed."""


def hold_seconds(usual: float, others_free: int, fleet_reserve: int) -> float:
    """After so long a message goes back where that costs nothing; ``usual`` at the most.

    Soon only while another worker has a slot for it: else it would come back at once, here or
    to another that can't run it either, and go round in circles.
    """
    if others_free > fleet_reserve:
        return min(HOARD_SECONDS, usual)
    return min(PERHAPS_SECONDS, usual) if others_free > 0 else usual
