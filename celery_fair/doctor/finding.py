"""Findings, and the rules that find them; ``docs/doctor.md`` has the same list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""The worst first."""

NAMED = 5
"""How many subjects a sentence names; JSON has them all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: what it is, why it matters, and what to do."""

    id: str
    severity: Severity
    what: str
    why: str
    cure: str
    subjects: tuple[str, ...] = ()
    """The tasks, queues or workers concerned."""

    def line(self) -> str:
        """All of it in one line, for a log."""
        return f"{self.id}: {self.what}. {self.why} {self.cure}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding: its id is never given to another.

    ``why`` and ``cure`` are what can be said without a case; a finding may know it better.
    """

    id: str
    severity: Severity
    title: str
    why: str
    cure: str

    def finding(
        self,
        what: str,
        subjects: Iterable[str] = (),
        *,
        why: str | None = None,
        cure: str | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        return Finding(
            self.id, severity or self.severity, what, why or self.why, cure or self.cure,
            tuple(subjects),
        )  # fmt: skip


_rules: dict[str, Rule] = {}


def rule(id: str, severity: Severity, title: str, *, why: str, cure: str) -> Rule:
    """Make a rule, and have it listed; raises ``ValueError`` if its id is taken."""
    if id in _rules:
        raise ValueError(f"expected an id of its own for {title!r}, got {id}: {_rules[id].title!r}")
    _rules[id] = Rule(id, severity, title, why, cure)
    return _rules[id]


def rules() -> tuple[Rule, ...]:
    """All that have been made, by id."""
    return tuple(_rules[id] for id in sorted(_rules))


def named(subjects: Iterable[str]) -> str:
    """``a, b, c``; the first few of many."""
    names = list(subjects)
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
