"""What is likely to go wrong: findings with a stable id, from an app and from its workers."""

from __future__ import annotations

from celery_fair.doctor.finding import SEVERITIES, Finding, Rule, Severity, rules
from celery_fair.doctor.live import live_findings
from celery_fair.doctor.replies import Replies
from celery_fair.doctor.static import app_findings, static_findings

RULES = rules()
"""All that can be found, by id: each room has made its own."""

__all__ = (
    "RULES",
    "SEVERITIES",
    "Finding",
    "Replies",
    "Rule",
    "Severity",
    "app_findings",
    "live_findings",
    "static_findings",
)
