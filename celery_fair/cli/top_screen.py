"""`top` on a whole screen: listens, draws, and ends with a key."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any

from rich.console import Console
from rich.live import Live

from celery_fair.cli.top_facts import plain
from celery_fair.cli.top_keys import ending_in_order, keys
from celery_fair.cli.top_view import Frame
from celery_fair.cli.top_watch import Watch, unreadable_note
from celery_fair.cli.words import duration
from celery_fair.observe.cluster import Cluster
from celery_fair.observe.events import TYPE, UNWATCHED_SECONDS
from celery_fair.observe.listening import Listener

TICK_SECONDS = 0.2
"""How long a key, a new size of the window or a lost broker may go unnoticed."""
END_SECONDS = 2.0


def run(
    app: Any, url: str, reports: Mapping[str, Any], console: Console, interval_seconds: float
) -> None:
    """Show until ``q`` or Ctrl-C. ``reports`` are what the workers have just answered."""
    cluster = Cluster()
    for node, report in reports.items():
        told = {"fair_facts": report, "fair_every": UNWATCHED_SECONDS}
        cluster.hear({"type": TYPE, "hostname": node, **told}, monotonic())
    listener = Listener(app, cluster)
    listener.start()
    try:
        with suppress(KeyboardInterrupt):
            _Screen(Watch(cluster), listener, url, console).show(interval_seconds)
    finally:
        listener.stop()
        listener.join(END_SECONDS)


class _Screen:
    def __init__(self, watch: Watch, listener: Listener, url: str, console: Console) -> None:
        self._watch = watch
        self._listener = listener
        self._url = url
        self._console = console

    def show(self, interval_seconds: float) -> None:
        with ExitStack() as stack:
            stack.enter_context(_silent_logs())
            stack.enter_context(ending_in_order())
            pressed = stack.enter_context(keys())
            live = stack.enter_context(
                Live(
                    console=self._console,
                    screen=True,
                    auto_refresh=False,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
            )
            drawn_at, drawn = float("-inf"), None
            while True:
                now = monotonic()
                self._watch.take(now, lost=self._listener.error is not None)
                state = (self._console.size, self._listener.error is None)
                if state != drawn or now - drawn_at >= interval_seconds:
                    drawn_at, drawn = now, state
                    live.update(self._frame(now), refresh=True)
                if "q" in pressed(min(TICK_SECONDS, interval_seconds)).lower():
                    return

    def _frame(self, now: float) -> Frame:
        return Frame(self._watch.picture(now, time.time(), self._notes(now)))

    def _notes(self, now: float) -> Iterator[str]:
        watch, error = self._watch, self._listener.error
        said = watch.last_word
        last = "" if said is None else f" The last word was {duration(now - said)} ago."
        if error is not None:
            yield f"The broker is lost, trying again.{last} ({plain(str(error))})"
        elif not watch.is_anybody_there:
            yield f"No worker with celery-fair is heard of on {plain(self._url)}.{last}"
        if watch.unreadable:
            yield unreadable_note(len(watch.unreadable))


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Nothing may write across the screen; what matters of it is said there."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
