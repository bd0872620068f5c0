"""Labelled sentences, filled to the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text


def head(console: Console, text: str, style: str = "bold") -> None:
    """The answer."""
    _lines(console, "", "", text, style)


def sentence(console: Console, text: str | Text, style: str = "", indent: int = 0) -> None:
    """A line, or as many as it takes."""
    margin = " " * indent
    _lines(console, margin, margin, text, style)


def plain(console: Console, text: str) -> None:
    """A line that brings its margin, which the lines that it takes further have too."""
    margin = len(text) - len(text.lstrip(" "))
    sentence(console, text[margin:], indent=margin)


def rows_of(console: Console, rows: Sequence[tuple[str, str]], indent: int = 2) -> None:
    """A label before its first sentence, and each sentence in a column of its own."""
    width = max((len(label) for label, _ in rows), default=0)
    shown = ""
    for label, text in rows:
        first = "" if label == shown else label
        margin = " " * indent
        _lines(console, f"{margin}{first:<{width}}  ", " " * (indent + width + 2), text)
        shown = label


def _lines(console: Console, first: str, others: str, text: str | Text, style: str = "") -> None:
    """Filled by words, without blanks at the ends: what is copied from here has none either."""
    width = max(console.width - len(others), 20)
    whole = Text(text, style=style) if isinstance(text, str) else text
    whole.plain = _harmless(whole.plain)
    for number, line in enumerate(whole.wrap(console, width)):
        line.rstrip()
        console.print(Text.assemble((others if number else first, "dim"), line), no_wrap=True)


def _harmless(text: str) -> str:
    """Names come over the broker, from anybody who may publish: none of them steers a terminal."""
    return "".join(
        sign
        if sign.isprintable() or sign in "\n\N{NO-BREAK SPACE}"
        else "\N{REPLACEMENT CHARACTER}"
        for sign in text
    )
