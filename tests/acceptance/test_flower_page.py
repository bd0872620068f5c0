"""The Fair page in a browser: any number of workers, theme and width; keyboard; hostile names."""

from __future__ import annotations

from pathlib import Path

from celery_fair import Fair
from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.flower.facts import facts, histogram, kind
from tests.unit.jobs.kept import keep, work
from tests.unit.observe.workers import resource

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>@evil"
CHECKS = (Path(__file__).parents[1] / "flower" / "checks.js").read_text(encoding="utf-8")
RESOURCES = {"set": True, "unknown": False, "age_seconds": 1.0, "of": [], "left_out": 0}
ENGINE = {
    "probed": True, "pressure": 1.5, "detail": "waiting requests: 12", "queueing": True,
    "unknown": False, "age_seconds": 0.3, "failing": "", "failures": 0,
}  # fmt: skip
REPLAY = {
    "why": None, "seconds": 78.0, "until": 1_800_000_000.0, "tasks": 655, "slots": 8,
    "left_out": [HOSTILE],
    "kinds": [
        ["interactive", {"tasks": 600, "measured": 3.8, "replayed": 3.8, "would_be": 0.082,
                         "error": 0.004, "later_last": 0.0, "why": None}],
        ["batch", {"tasks": 55, "measured": 12.0, "replayed": 9.0, "would_be": None,
                   "error": 0.25, "later_last": None, "why": HOSTILE}],
    ],
}  # fmt: skip
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def shop(number: int) -> dict[str, dict]:
    """A fleet of so many, of which every third gate protects interactive tasks."""
    return {
        f"web{n:03}@shop": facts(
            kind("celery", running=n % 4, ready={"celery": 12}),
            kind("celery.batch", running=n % 3, held=n % 2, ready={"celery.batch": 3000}),
            mode="open" if n % 3 else "protected",
            slots=8 + n % 5,
            history=[[1_800_000_000.0 + n, "protected", "backlog", "interactive backlog 29 > 10"]],
            resources={**RESOURCES, "of": [resource(), resource("gpu", max_running=2)]},
            engine=ENGINE,
        )
        for n in range(number)
    }


def waited(told: dict[str, dict]) -> dict[str, dict]:
    """The same workers, some tasks later."""
    more = {"interactive": histogram(b4=90, b7=10), "batch": histogram(b11=20)}
    return {
        name: {
            **its,
            "kinds": {of: {**part, "waits": more[of]} for of, part in its["kinds"].items()},
        }
        for name, its in told.items()
    }


def test_without_a_worker_the_page_says_so(start_flower, open_page):
    page = open_page(f"{start_flower().url}/fair")
    page.get_by_text("No worker with celery-fair has been heard of yet").wait_for()
    assert not page.locator("#fair-figures").is_visible()
    assert page.locator("#fair-live-text").inner_text() == "Live"


def test_a_hundred_workers_light_dark_narrow_and_wide(start_flower, fleet, open_page):
    flower = start_flower()
    told = shop(100)
    fleet.introduce(flower, told)
    fleet.tell(waited(told))
    wait_until(lambda: flower.data()["waits"]["points"][-1][1], "waits")
    for theme, width in (("light", 375), ("dark", 1600)):
        page = open_page(f"{flower.url}/fair", theme=theme, width=width)
        page.get_by_text("web099@shop").first.wait_for()
        assert page.locator(".fair-worker").count() == 100
        assert page.locator("html").get_attribute("data-bs-theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(f"({CHECKS})()") == [], (theme, width)
        # No worker of these observes, so the page is shown what one would have come to.
        shown = page.evaluate(
            f"(replay) => {{ window.fair.showReplay(replay); return ({CHECKS})(); }}", REPLAY
        )
        assert shown == [], (theme, width)
        assert all(url.startswith(flower.url) for url in page.asked)
        assert page.locator("#fair-reading").inner_text().startswith("Now: interactive ")


def test_everything_can_be_done_with_the_keyboard(start_flower, fleet, open_page):
    flower = start_flower()
    told = shop(20)
    fleet.introduce(flower, told)
    page = open_page(f"{flower.url}/fair")
    page.get_by_text("web019@shop").first.wait_for()
    page.get_by_label("Filter by name").focus()
    page.keyboard.type("web007")
    assert page.locator(".fair-worker:visible").count() == 1
    page.keyboard.press("Tab")  # into the list, which scrolls
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "web007@shop"
    # The figures come anew each two seconds, and the focus stays.
    fleet.tell(waited(told))
    page.wait_for_function("document.getElementById('fair-waits').textContent.includes('ms')")
    assert page.evaluate("document.activeElement.textContent") == "web007@shop"
    chart = page.locator("#fair-chart")
    chart.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    assert (
        page.locator("#fair-reading").inner_text()
        == "15 min ago: interactive none started, batch none started"
    )
    assert chart.get_attribute("aria-valuetext") == page.locator("#fair-reading").inner_text()


def test_names_of_workers_and_queues_are_text_whatever_they_hold(start_flower, fleet, open_page):
    flower = start_flower()
    fleet.introduce(
        flower,
        {
            HOSTILE: facts(
                batch=kind(HOSTILE, ready={HOSTILE: 7}),
                mode=HOSTILE,
                version=HOSTILE,
                history=[[1_800_000_000.0, HOSTILE, HOSTILE, HOSTILE]],
                idle={HOSTILE: 1.0},
                resources={**RESOURCES, "of": [resource(HOSTILE)]},
                engine={**ENGINE, "detail": HOSTILE},
            ),
            f"odd{HOSTILE}": {},
        },
    )
    fleet.send(f"plain{HOSTILE}", "worker-online")
    fleet.send(HOSTILE, "task-received", uuid="1", name="t", fair_kind=HOSTILE, fair_queue=HOSTILE)
    page = open_page(f"{flower.url}/fair")
    link = page.locator("#fair-workers a")
    link.wait_for()
    assert link.inner_text() == HOSTILE
    assert HOSTILE in page.locator("#fair-backlog").inner_text()
    assert HOSTILE in page.locator("#fair-changes").inner_text()
    assert HOSTILE in page.locator("#fair-resources").inner_text()
    assert HOSTILE in page.locator("#fair-engine").inner_text()
    assert f"odd{HOSTILE} tells figures" in page.locator("#fair-notes").inner_text()
    words = page.evaluate(
        """(replay) => {
          window.fair.showReplay(replay);
          return document.getElementById("fair-replay-panel").innerText;
        }""",
        REPLAY,
    )
    assert f"no figure: {HOSTILE}" in words
    assert f"Not replayed: {HOSTILE}" in words
    tasks = open_page(f"{flower.url}/tasks")
    tasks.get_by_role("cell", name=HOSTILE).first.wait_for()
    for one in (page, tasks):
        assert one.locator(".fair script, .fair img, td script, td img").count() == 0


def test_a_lost_flower_is_said_and_its_return_as_well(start_flower, fleet, open_page):
    flower = start_flower()
    fleet.introduce(flower, {"w1@shop": facts()})
    page = open_page(f"{flower.url}/fair")
    state, words = page.locator("#fair-live"), page.locator("#fair-live-text")
    page.locator("#fair-live[data-state=live]").wait_for()
    flower.kill()
    page.locator("#fair-live[data-state=lost]").wait_for()
    assert "the figures are from" in words.inner_text()
    assert page.get_by_text("w1@shop").first.is_visible()
    flower.start()
    page.locator("#fair-live[data-state=live]").wait_for(timeout=15_000)
    assert state.get_attribute("data-state") == "live"


def test_a_hidden_tab_asks_for_nothing(start_flower, open_page):
    page = open_page(f"{start_flower().url}/fair")
    page.locator("#fair-live[data-state=live]").wait_for()
    page.evaluate(HIDE, True)
    page.locator("#fair-live[data-state=paused]").wait_for()
    before = sum(url.endswith("/fair/data") for url in page.asked)
    page.wait_for_timeout(2500)  # longer than it waits between two questions
    assert sum(url.endswith("/fair/data") for url in page.asked) <= before
    page.evaluate(HIDE, False)
    page.locator("#fair-live[data-state=live]").wait_for()


def test_jobs_are_shown_without_any_worker_as_text_whatever_their_names_hold(
    start_flower, open_page, broker
):
    app = mixed.make_app(broker)
    store = Fair.of(app).jobs.store
    keep(store, "nightly", 200, task="shop.summarize", chunk_items=50)
    work(store, "nightly", 50, failing=3)
    keep(store, "evil", 3, task=HOSTILE)
    store.pause("evil", HOSTILE)
    flower = start_flower()
    for theme, width in (("light", 375), ("dark", 1600)):
        page = open_page(f"{flower.url}/fair", theme=theme, width=width)
        nightly = page.get_by_role("row", name="nightly")
        nightly.wait_for()
        assert "▶ running" in nightly.inner_text()
        assert "47 of 200 (23 %)" in nightly.inner_text().replace("\N{NO-BREAK SPACE}", " ")
        assert page.locator("#fair-jobs .fair-progress-done").nth(1).get_attribute("style") == (
            "width:23.5%"
        )
        evil = page.get_by_role("row", name="evil").first.inner_text()
        assert evil.count(HOSTILE) == 2
        assert page.locator(".fair script, .fair img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(f"({CHECKS})()") == [], (theme, width)
    page.locator("#fair-jobs-panel").get_by_role(
        "region", name="Jobs"
    ).focus()  # it scrolls, so a key must get there
    assert page.evaluate("document.activeElement.contains(document.getElementById('fair-jobs'))")
    show = """([rate]) => {
        window.fair.showJobs({jobs: [{state: "running", rate}], away: false});
        return document.querySelector("#fair-jobs td:nth-child(6)").textContent;
    }"""
    shown = [page.evaluate(show, [rate]) for rate in (120, 0.5, 0.0005)]
    assert shown == ["120/s", "30/min", "1.8/h"]
    app.close()
