"""What the site reads from the code: each command with its options, and each public name.

``{commands}`` and ``{names}`` in a page are filled in as it is built, so nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import celery_fair
from celery_fair.cli import fair
from celery_fair.cli.examples import EXAMPLES

NOWHERE = click.Context(fair, info_name="fair")


def commands() -> Iterator[str]:
    """Every command in Markdown: what it does, its options, an example of it."""
    for name, command in sorted(fair.commands.items()):
        yield from _command(name, command, 2)
        for inner, part in sorted(getattr(command, "commands", {}).items()):
            yield from _command(f"{name} {inner}", part, 3)


def _command(name: str, command: click.Command, level: int) -> Iterator[str]:
    yield f"{'#' * level} `fair {name}`"
    yield _prose(command.help or "")
    rows = list(filter(None, (_row(one) for one in command.params)))
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *rows])
    if name in EXAMPLES:
        yield f"```console\n{EXAMPLES[name].rstrip()}\n```"


def _prose(text: str) -> str:
    """A command's help: its paragraphs, and what click is told to leave as it is."""
    told = re.split(r"\n\s*Example:", inspect.cleandoc(text))[0]
    blocks = re.split(r"\n\s*\n", told.strip())
    return "\n\n".join(_block(block) for block in blocks if block.strip())


def _block(block: str) -> str:
    if block.startswith("\b"):
        return f"```text\n{textwrap.dedent(block.lstrip(chr(8)).strip(chr(10)))}\n```"
    return _escaped(block)


def _escaped(text: str) -> str:
    marked = re.sub(r"([<>*_\[\]|])", r"\\\1", text)
    return re.sub(r"(?<![\w`])(--?[A-Za-z][\w-]*)", r"`\1`", marked)


def _row(parameter: click.Parameter) -> str | None:
    if isinstance(parameter, click.Option):
        if parameter.hidden or not (record := parameter.get_help_record(NOWHERE)):
            return None
        return f"| `{record[0].replace('|', '¦')}` | {_escaped(record[1])} |"
    return f"| `{parameter.human_readable_name}` | {_need(parameter)} |"


def _need(parameter: click.Parameter) -> str:
    return (
        ("one or more" if parameter.nargs == -1 else "needed")
        if parameter.required
        else "may be left out"
    )


def names() -> Iterator[str]:
    """Every public name, for autodoc, as ``celery_fair.__all__`` groups them."""
    for name in celery_fair.__all__:
        value: Any = getattr(celery_fair, name)
        if inspect.isclass(value):
            yield _autodoc("autoclass", name + _shortened(value), *_options(value))
        elif inspect.isroutine(value):
            yield _autodoc("autofunction", name)


def _shortened(value: type) -> str:
    """The signature, where the settings' own would fill a screen."""
    return "(**settings)" if value is celery_fair.FairSettings else ""


def _options(value: type) -> list[str]:
    members = PROMISED.get(value.__name__, ())
    return [f"members: {', '.join(members)}"] if members else []


def _promised() -> dict[str, list[str]]:
    """Members of public classes, by the listing that a test holds to the code."""
    found: dict[str, list[str]] = {}
    for block in LISTING.read_text(encoding="utf-8").split("\nclass ")[1:]:
        name = re.match(r"\w+", block)
        members = re.findall(r"^  (\w+)", block.split("\n[")[0], re.MULTILINE)
        found.setdefault(name[0] if name else "", [m for m in members if m != "__init__"])
    return found | {"FairSettings": []}


LISTING = Path(__file__).parents[2] / "tests/unit/infra/public_api.txt"
PROMISED = _promised()


def _autodoc(directive: str, name: str, *options: str) -> str:
    lines = [f".. {directive}:: celery_fair.{name}", *(f"   :{one}" for one in options)]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


class Generated(SphinxDirective):
    """Puts Markdown that a function gives in the place where it stands."""

    make: Any = None

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(Path(__file__)))
        text = "\n\n".join(type(self).make())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class Commands(Generated):
    make = commands


class Names(Generated):
    make = names


def to_the_front(app: Sphinx, failed: Exception | None) -> None:
    """The first page stands in a folder, as in the repository: lead there."""
    if failed is None and app.builder.format == "html":
        page = '<!doctype html><meta charset="utf-8"><title>celery-fair</title>'
        page += '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        page += '<a href="docs/index.html">celery-fair</a>\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("names", Names)
    app.connect("build-finished", to_the_front)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
