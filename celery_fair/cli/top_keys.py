"""Keys as they are pressed, from a terminal that is left as it was found."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

LOCAL_MODES, CHARACTERS = 3, 6
"""Where `termios.tcgetattr` has them."""


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Give a function that waits so many seconds for keys, and returns those that were pressed.

    ``q`` for a terminal that has hung up. Where standard input is no terminal, no key ever comes.
    """
    if not sys.stdin.isatty():
        yield _no_keys
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    modes = termios.tcgetattr(terminal)
    modes[LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)  # Ctrl-C goes on to interrupt
    # A job that is stopped would leave its last frame, and these modes, to the shell.
    modes[CHARACTERS][termios.VSUSP] = os.fpathconf(terminal, "PC_VDISABLE").to_bytes(1, "little")
    termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
    try:
        yield lambda seconds: _pressed(terminal, seconds)
    finally:
        with suppress(termios.error):  # it may be gone
            # With what was typed and not read: it was not meant for the shell.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def _pressed(terminal: int, seconds: float) -> str:
    if not select.select([terminal], [], [], seconds)[0]:
        return ""
    try:
        return os.read(terminal, 1024).decode(errors="replace") or "q"
    except OSError:
        return "q"


def _no_keys(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind, so that the terminal is put back."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before: dict[int, Any] = {
        number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
