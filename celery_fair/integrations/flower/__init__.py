"""A *Fair* page in Flower 2.x, without a fork of it.

Either ``celery -A proj fair flower``, or in ``flowerconfig.py`` for plain ``celery flower``::

    from celery_fair.integrations.flower import install

    install()
"""

from __future__ import annotations

from celery_fair import FairError

__all__ = ("FlowerMissing", "install")


class FlowerMissing(FairError, ImportError):  # noqa: N818 - a sentence, as the others are
    """Flower 2 is not installed."""

    def __init__(self, found: str | None = None) -> None:
        self.found = found
        what = f"Flower {found} is too old" if found else "Flower is not installed"
        super().__init__(f"{what}: pip install 'celery-fair[flower]'")


def install() -> None:
    """Add the page, its item in the navigation bar, and columns to the table of tasks.

    Call it before Flower is built, as ``flowerconfig.py`` does; a second call does nothing.
    Raises `FlowerMissing`.
    """
    require()
    from celery_fair.integrations.flower.installing import install_once

    install_once()


def require() -> None:
    """Raise `FlowerMissing` unless there is a Flower that can be extended."""
    try:
        from flower import __version__ as found
    except ImportError as error:
        raise FlowerMissing from error
    if int(found.partition(".")[0]) < 2:
        raise FlowerMissing(found)
