"""Asking the workers over Celery's remote control, with clear words when that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES

from celery_fair.errors import did_you_mean


class Unreachable(CeleryCommandException):
    """The broker can't be reached: is it running, and is its URL right?"""

    def __init__(self, url: str, reason: object) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"The broker {url} can't be reached: is it running, and does this machine use the "
            f"workers' broker_url? ({reason})",
            EX_UNAVAILABLE,
        )


class Refused(Unreachable):
    """The broker was reached, and refuses what remote control needs: make room, or give rights."""

    def __init__(self, url: str, reason: object) -> None:
        super().__init__(url, reason)
        CeleryCommandException.__init__(
            self,
            f"The broker {url} was reached, and refuses what remote control needs: is it full, or "
            f"may its user not? ({str(reason).rstrip('.')})",
            EX_UNAVAILABLE,
        )


class NoRemoteControl(CeleryCommandException):
    """The transport can't broadcast, so that no worker can be asked anything."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"The transport of {url} has no remote control: workers can't be asked over it.",
            EX_UNAVAILABLE,
        )


SHAPE = (
    "expected transport://user:password@host:port/name, with %-codes for what is special in a "
    "password, and a number for the name of a Redis database"
)


class BadBrokerUrl(Unreachable):
    """No connection can be made of the broker's URL: correct broker_url, or -b."""

    def __init__(self, reason: str) -> None:
        CeleryCommandException.__init__(
            self, f"The broker's URL can't be used: {reason}", EX_UNAVAILABLE
        )


def connection_to_broker(app: Any, *, reading: bool = False) -> Any:
    """A connection that nothing was sent over yet. Raises `BadBrokerUrl`, ImportError."""
    try:
        return app.connection_for_read() if reading else app.connection_for_write()
    except KeyError as error:  # kombu's "No such transport: NAME.  Did you mean …?"
        name = str(error.args[0]).partition(": ")[2].partition(".")[0]
        raise BadBrokerUrl(
            f"kombu has no transport {name!r}{did_you_mean(name, TRANSPORT_ALIASES)}"
        ) from None
    except AttributeError as error:  # of None, which stands for redis-py where kombu lacks it
        if "NoneType" not in str(error):
            raise
        raise ImportError("kombu has no client for this broker", name="redis") from None
    except ValueError:  # which may quote a part of a password
        raise BadBrokerUrl(SHAPE) from None


def broker_url(app: Any) -> str:
    """The broker's URL, without its password. Raises `BadBrokerUrl`."""
    return _without_password(connection_to_broker(app))


def _without_password(connection: Any) -> str:
    url = str(connection.as_uri())
    # kombu masks a password even where there is none.
    return url if connection.userid or connection.password else url.replace("://:**@", "://")


def ask(
    app: Any,
    command: str,
    *,
    timeout_seconds: float,
    destination: Sequence[str] | None = None,
    limit: int | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What each worker answers; empty if none does. Raises `Unreachable` and the like.

    ``limit`` is the number of answers to expect: with them there is no need to wait any longer.
    """
    from celery_fair.observe.listening import answers

    with connection_to_broker(app) as connection:
        url = _without_password(connection)
        if not connection.supports_exchange_type("fanout"):
            raise NoRemoteControl(url)
        lost = (OperationalError, *connection.connection_errors, *connection.channel_errors)
        try:
            _reach(connection)
            return answers(
                app,
                connection,
                command,
                timeout=timeout_seconds,
                destination=list(destination) if destination else None,
                limit=limit,
                arguments=dict(arguments or {}),
            )
        except lost as error:
            refused = isinstance(error.__cause__ or error, tuple(connection.channel_errors))
            raise (Refused if refused else Unreachable)(url, error) from error


def _reach(connection: Any) -> None:
    from celery_fair.observe.listening import reach

    try:
        reach(connection)
    except ValueError:  # of the URL's last part, which is read as it connects
        raise BadBrokerUrl(SHAPE) from None
