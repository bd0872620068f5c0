"""What any command may meet before it does anything, each told in one sentence with its cure."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any, Final

import celery
import click
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

EX_USAGE: Final = 2
"""As click has it for a command that was called in a wrong way."""
EX_IOERR: Final = 74
EX_CONFIG: Final = 78
"""As sysexits.h has them: output can't be written; settings can't be used."""
EX_INTERRUPTED: Final = 130
"""As a shell has it for a command that Ctrl-C has ended."""

OLDEST: Final = (5, 5)
EXTRAS: Final = {
    "redis": "redis",
    "prometheus_client": "prometheus",
    "flower": "flower",
    "tornado": "flower",
    "django": "django",
    "flask": "flask",
    "matplotlib": "simulate",
    "yaml": "simulate",
}
"""Of packages that may be missing, the extra that brings them."""
OWN: Final = ("rich", "pydantic", "click_didyoumean")
"""Packages that come with this one, unless it was installed without what it needs."""


def without_app(*parameters: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a command that needs no app if it is given one of these parameters; of none, never."""

    def mark(callback: Callable[..., Any]) -> Callable[..., Any]:
        callback.without_app = parameters  # type: ignore[attr-defined]
        return callback

    return mark


def told(callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A command's callback that fails with a sentence where a traceback would help nobody."""
    if callback is None:
        return None

    @functools.wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        from celery_fair.errors import FairError, JobNotFound, StateAway

        context = click.get_current_context()
        _check_version()
        instead = getattr(callback, "without_app", None)
        if instead is None or (instead and not any(map(context.params.get, instead))):
            _check_app(context)
        try:
            return callback(*args, **kwargs)
        except FairError as error:
            code = {StateAway: EX_UNAVAILABLE, JobNotFound: EX_USAGE}.get(type(error), EX_CONFIG)
            raise CeleryCommandException(str(error), code) from error
        except ImportError as error:
            raise CeleryCommandException(_missing(error), EX_UNAVAILABLE) from error
        except OSError as error:
            if error.errno != errno.ENOSPC:  # a closed pipe is click's, a lost broker the command's
                raise
            raise CeleryCommandException(
                "No room is left for the output on its device: make some, or write it elsewhere.",
                EX_IOERR,
            ) from error
        except KeyboardInterrupt:
            context.exit(EX_INTERRUPTED)

    return run


def _check_version() -> None:
    if tuple(celery.VERSION[:2]) < OLDEST:
        raise CeleryCommandException(
            f"celery-fair needs Celery 5.5 or newer, and this is {celery.__version__}: "
            f"pip install --upgrade 'celery>=5.5,<6', here and where the workers are.",
            EX_UNAVAILABLE,
        )


def _check_app(context: click.Context) -> None:
    """Without an app and a broker's URL Celery goes to RabbitMQ on this machine, unasked."""
    if context.find_root().params.get("app", ...) is not None:
        return
    if context.obj.app.conf.broker_url:
        return
    raise CeleryCommandException(
        f"No app was named, and no broker: say which with -A, as in "
        f"`celery -A proj fair {context.info_name}`.",
        EX_USAGE,
    )


def _missing(error: ImportError) -> str:
    package = (error.name or "").partition(".")[0]
    if package in OWN:
        return f"The package {package} is missing: pip install {package}"
    extra = EXTRAS.get(package)
    if extra is not None:
        return f"{str(error).rstrip('.')}: pip install 'celery-fair[{extra}]'"
    return f"{str(error).rstrip('.')}: is it installed in this environment?"
