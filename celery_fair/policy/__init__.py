"""The pure scheduling policy: time and load are arguments, decisions are values.

It imports the standard library and itself only. The worker, the simulator and the tests run the
same objects.
"""

from celery_fair.policy.fleet import FleetView, Member, fleet_view
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.load import Credits, Load, Mode
from celery_fair.policy.policy import Policy
from celery_fair.policy.settings import PolicySettings
from celery_fair.policy.view import PolicyView

__all__ = [
    "BATCH",
    "INTERACTIVE",
    "KINDS",
    "Credits",
    "FleetView",
    "Kind",
    "Load",
    "Member",
    "Mode",
    "Policy",
    "PolicySettings",
    "PolicyView",
    "fleet_view",
]
