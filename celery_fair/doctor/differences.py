"""Workers that differ from each other, or from this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import celery_fair
from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.replies import Replies, by_value, shown
from celery_fair.settings import FairSettings

SHARED: Final = ("visibility_timeout", "sep", "priority_steps")

DIFFERENT_SETTINGS: Final = rule(
    "F105",
    "warning",
    "workers with different settings",
    why="Guarantees that are meant for all of them together hold for none.",
    cure="Give them the same configuration, and restart those that still have the old one; "
    "`fair settings --diff` shows from where each has its own.",
)
DIFFERENT_VERSIONS: Final = rule(
    "F106",
    "warning",
    "workers with different versions",
    why="Older workers may not know what newer publishers and workers say.",
    cure="Finish the upgrade: workers first, publishers after them.",
)
DIFFERENT_OPTIONS: Final = rule(
    "F124",
    "error",
    "workers with different transport options",
    why="Of visibility_timeout the shortest holds for all of them; with another sep or other "
    "priority_steps they look for messages under other keys than publishers use.",
    cure="Give workers and publishers the same broker_transport_options.",
)


def difference_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    yield from _settings(replies.reports)
    yield from _versions(replies.reports)
    yield from _celerys(replies.checkups)
    yield from _options(fair, replies.checkups)


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


def _celerys(checkups: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name in ("celery", "kombu"):
        versions = by_value({node: said["versions"][name] for node, said in checkups.items()}, str)
        if len(versions) > 1:
            yield DIFFERENT_VERSIONS.finding(
                f"{name} is {shown(versions)}",
                checkups,
                why="What one of them sends, another may read in another way.",
                cure="Finish the upgrade.",
            )


def _options(fair: Fair, checkups: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    here = transport_options(fair.app)
    values = by_value(
        {node: said["transport_options"] for node, said in checkups.items()}, _written
    )
    if set(values) - {_written(here)}:
        yield DIFFERENT_OPTIONS.finding(
            f"broker_transport_options are {shown(values)}, and {_written(here)} here", checkups
        )


def _written(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(options.items())) or "as kombu's"


def transport_options(app: Any) -> dict[str, Any]:
    """Those that only work if all have the same; a worker tells its own by the same function."""
    options = app.conf.broker_transport_options or {}
    found = {name: options[name] for name in SHARED if options.get(name) is not None}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}
