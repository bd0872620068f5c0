"""The group of the ``celery fair`` commands: its overview, and what all of them do alike."""

from __future__ import annotations

from typing import Any, Final

import click
from click_didyoumean import DYMGroup

from celery_fair.cli.failing import told
from celery_fair.cli.writing import write_with_any_encoding

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "What happens, and why": ("status", "top", "explain", "resources", "doctor"),
    "Change it while it runs": ("pause", "resume", "set", "settings", "mode", "drain"),
    "Batch jobs": ("job",),
    "Measure it": ("bench", "record", "simulate", "advise"),
    "Show it elsewhere": ("exporter", "flower"),
}
"""The commands in the order in which one needs them."""

OTHERS: Final = "More"


class FairGroup(DYMGroup):
    """Commands in sections, each with an example in its help, and failing with a sentence.

    ``within`` are the words before a command's own name, in a group of this one.
    """

    def __init__(self, *args: Any, within: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.within = within

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        write_with_any_encoding()  # here, since the help is written while a context is made
        return super().make_context(*args, **kwargs)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.callback = told(cmd.callback)
        super().add_command(cmd, name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with its example, which other runs of ``celery`` have no need to load."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not command.epilog:
            from celery_fair.cli.examples import epilog

            command.epilog = epilog(f"{self.within} {cmd_name}".lstrip())
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.within:
            return super().format_commands(ctx, formatter)
        known = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in known)
        for title, names in {**SECTIONS, OTHERS: others}.items():
            found = [self.commands[name] for name in names if name in self.commands]
            rows = [(str(one.name), one.get_short_help_str(64)) for one in found if not one.hidden]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
