"""Workers that differ from each other, or from this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import celery_fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies, by_value
from celery_fair.settings import FairSettings

DIFFERENT_SETTINGS: Final = rule(
    "F105",
    "warning",
    "workers with different settings",
    why="Guarantees that are meant for all of them together hold for none.",
    cure="Give them the same configuration, and restart those that still have the old one.",
)
DIFFERENT_VERSIONS: Final = rule(
    "F106",
    "warning",
    "workers with different versions",
    why="Older workers may not know what newer publishers and workers say.",
    cure="Finish the upgrade: workers first, publishers after them.",
)


def difference_findings(replies: Replies) -> Iterator[Finding]:
    yield from _settings(replies.reports)
    yield from _versions(replies.reports)


def _settings(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """A reply names the settings that were set; one that is missing has its default."""
    defaults = {name: field.default for name, field in FairSettings.model_fields.items()}
    names = sorted({name for report in reports.values() for name in report["settings"]})
    differing: dict[str, str] = {}
    for name in names:
        values = by_value(
            {
                node: report["settings"].get(name, defaults.get(name))
                for node, report in reports.items()
            }
        )
        if len(values) > 1:
            differing[name] = shown(values)
    if differing:
        yield DIFFERENT_SETTINGS.finding(
            "; ".join(f"{name} is {values}" for name, values in differing.items()), reports
        )


def _versions(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    versions = by_value({node: report["version"] for node, report in reports.items()}, str)
    if set(versions) - {celery_fair.__version__}:
        yield DIFFERENT_VERSIONS.finding(
            f"celery-fair is {shown(versions)}, and {celery_fair.__version__} here", reports
        )


def shown(values: Mapping[str, list[str]]) -> str:
    """``0.2 on w1, w2; 0.3 on w3``, whatever the number of workers."""
    return ", ".join(f"{value} on {named(nodes)}" for value, nodes in values.items())
