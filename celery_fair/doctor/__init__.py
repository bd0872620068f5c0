"""What is likely to go wrong: findings with a stable id, from an app and from its workers."""

from __future__ import annotations

from celery_fair.doctor.finding import RULES, Finding, Rule, Severity
from celery_fair.doctor.live import Replies, live_findings
from celery_fair.doctor.static import static_findings

__all__ = (
    "RULES",
    "Finding",
    "Replies",
    "Rule",
    "Severity",
    "live_findings",
    "static_findings",
)
