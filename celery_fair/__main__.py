"""``python -m celery_fair``: what needs no app. The rest is ``celery -A proj fair``."""

from __future__ import annotations

import click

from celery_fair.demo.command import demo


@click.group(invoke_without_command=True)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Interactive Celery tasks stop waiting behind batch work.

    With an app of your own: celery -A proj fair --help
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


main.add_command(demo)

if __name__ == "__main__":
    main(prog_name="python -m celery_fair")
