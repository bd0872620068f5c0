"""Two reports of the bench side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from celery_fair.policy.kinds import KINDS

FORMAT: Final = 1
"""Of a saved report; another one can't be compared with."""

Unit = Literal["seconds", "ratio", "number"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure before and after."""

    name: str
    unit: Unit
    before: float | None
    after: float | None
    at_least: tuple[bool, bool] = (False, False)
    """Whether before, and whether after, is only a lower bound."""

    @property
    def ratio(self) -> float | None:
        """After divided by before; ``None`` where one of the two isn't known."""
        if not self.before or self.after is None:
            return None
        return self.after / self.before


class NotAReport(ValueError):  # noqa: N818 - said of what was read
    """A file holds no report that can be compared with."""


def checked(report: Any) -> Mapping[str, Any]:
    """The report, if it is one of this format; raises `NotAReport`."""
    if not isinstance(report, Mapping) or report.get("format") != FORMAT:
        raise NotAReport(f"expected a report that `fair bench --save` wrote, of format {FORMAT}")
    try:
        list(rows(report, report))
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAReport(f"expected a whole report, and {error} is missing in it") from error
    return report


def rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    """All that two reports have in common, what matters most first."""
    for kind in KINDS:
        parts = [report["kinds"][kind]["wait_seconds"] for report in (before, after)]
        for name in ("p50", "p95", "p99", "max"):
            then, now = (part[name] for part in parts)
            bounds = (name in parts[0]["at_least"], name in parts[1]["at_least"])
            yield Row(f"{kind} wait {name}", "seconds", then, now, bounds)
    for kind in KINDS:
        then, now = (report["slots_in_use"][kind] for report in (before, after))
        yield Row(f"{kind} slots in use", "number", then, now)
    for name, unit in (("utilisation", "ratio"), ("batch_part", "ratio")):
        yield Row(name.replace("_", "'s "), unit, before[name], after[name])  # type: ignore[arg-type]
    yield Row("tasks a second", "number", before["tasks_a_second"], after["tasks_a_second"])
