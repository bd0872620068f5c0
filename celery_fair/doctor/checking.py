"""Runs checks side by side: one that meets what it doesn't know takes nothing from the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from celery_fair.doctor.finding import Finding, rule

logger = logging.getLogger(__name__)

UNCHECKED: Final = rule(
    "F199",
    "info",
    "what could not be checked",
    why="Somebody did not answer, may not be asked, or has answered in a way that this version "
    "doesn't know, or a setting of Celery's is not of the usual type: it may be in order or not.",
    cure="Look at what is named; a command that a managed Redis refuses stays unknown.",
)


def checked(
    checks: Mapping[str, Callable[[], Iterable[Finding]]], unchecked: Iterable[str] = ()
) -> list[Finding]:
    """All that is found, and what was not looked at; never raises for what a check meets."""
    found: list[Finding] = []
    missed = list(unchecked)
    for about, check in checks.items():
        try:
            found += check()
        except Exception as error:
            logger.debug("%s could not be checked", about, exc_info=True)
            missed.append(f"{about} ({type(error).__name__}: {error})")
    if missed:
        found.append(UNCHECKED.finding(f"Not checked: {'; '.join(missed)}", missed))
    return found
