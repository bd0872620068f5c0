"""The site of a trap, for faults: its app has tasks that end badly, and its worker is struck."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.apps import faulty
from tests.integration.traps.conftest import Site, refuted

__all__ = ["refuted", "site"]


@pytest.fixture
def site(broker, journal, start_worker, tmp_path) -> Iterator[Site]:
    """A site on the test's ``broker``, whose workers run ``tests.apps.faulty``."""
    app = faulty.make_app(broker)
    site = Site(broker, app, journal, start_worker, tmp_path)
    site.start = functools.partial(site.start, app="tests.apps.faulty")
    yield site
    app.close()
