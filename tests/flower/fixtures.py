"""Fixtures: Flower processes, made-up workers, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.brokers.broker import Broker
from tests.brokers.fixtures import need, watch
from tests.flower.fleet import Fleet
from tests.flower.process import FlowerProcess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def start_flower(request, tmp_path, broker) -> Iterator[Callable[..., FlowerProcess]]:
    """``start_flower("--basic_auth=u:p", prefix="fl", …)``: Flower on the test's broker, ready."""
    running: list[FlowerProcess] = []

    def start(*options: str, wait_ready: bool = True, **more) -> FlowerProcess:
        log = tmp_path / f"flower-{len(running)}.log"
        flower = FlowerProcess(more.pop("broker", broker), log, *options, **more)
        running.append(flower)
        watch(request, flower)
        return flower.start(wait_ready=wait_ready)

    yield start
    for flower in running:
        flower.close()


@pytest.fixture
def fleet(broker: Broker) -> Iterator[Fleet]:
    """Workers that don't exist, on the test's broker."""
    with Fleet(broker) as made:
        yield made


@pytest.fixture(scope="module")
def chromium():
    """Debian's browser: Playwright's own is a download of its own."""
    need("chromium", CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """``open_page(url, theme="dark", width=375)``: a page on which nothing may go wrong.

    Its ``asked`` are the addresses it has asked for; an error in a script fails the test.
    """
    pages, errors = [], []

    def start(url: str, *, theme: str = "light", width: int = 1600, **options):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, **options
        )
        page = context.new_page()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
        page.goto(url)
        pages.append(page)
        return page

    yield start
    for page in pages:
        page.context.close()
    assert errors == []
