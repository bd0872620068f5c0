"""`celery_fair.testing` as a team uses it: runs whose tests pass, or fail and say why."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/testing.md"
BLOCKS = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)

#: Fixtures of other plugins stay out: a team need not have them.
FLAGS = ("-p", "no:celery", "-p", "no:docker_tools", "-p", "no:xdist", "-q", "--strict-markers")

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(300)

WRONG = '''
import time

import pytest
import shop
from celery_fair import fair_task
from celery_fair.errors import BadOption


@fair_task(kind="batch")
def forgets(orders):
    found = 0
    for order in shop.fair.yielding(orders):
        found += order
    raise ValueError(f"lost some: {found}")


@fair_task(kind="batch")
def deaf(orders):
    return sum(orders)


def test_late(fair_worker):
    fair_worker.flood(batch=9, seconds=30.0)
    fair_worker.assert_starts_within(0.1, shop.summarize.s(7))


def test_share(fair_worker):
    fair_worker.assert_share_at_least(0.9, seconds=0.5)


def test_kind(fair_worker):
    fair_worker.flood(batch=5, task=shop.answer.s("hi"))


def test_forgets(fair_worker):
    fair_worker.interrupt_after(2, forgets.s([1, 2, 3]))


def test_deaf(fair_worker):
    fair_worker.interrupt_after(2, deaf.s([1, 2, 3]))


def test_too_few(fair_worker):
    fair_worker.interrupt_after(9, shop.total.s([1, 2, 3]))


@pytest.mark.fair(concurency=1)
def test_typo(fair_worker):
    """Never called."""


@pytest.mark.fair(pool="prefork")
def test_no_app(fair_worker):
    """Never called."""


def test_the_app_is_given_back():
    assert shop.app.conf.broker_url == "redis://production/0"
    assert not [name for name in shop.app.tasks if name.startswith("celery_fair")]
'''

SAID = {
    "test_late": (
        r"expected shop\.summarize to start within 0\.1 s, and it had not started after 3\.1 s",
        r"the worker: 4 slots, threads, on memory",
        r"batch: 0 ran, [2-4] run, \d wait",
        r"where the time went, as `celery fair explain` has it:",
        r"batch: \d wait .* run\n.* why .*",
    ),
    "test_share": (
        r"expected batch to have at least 90% of the slots, and it had \d+\.\d%",
        r"of [\d.]+ slot-seconds: interactive [\d.]+ s, batch [\d.]+ s, idle [\d.]+ s; "
        r"batch_share is 0\.2",
    ),
    "test_kind": (r"expected shop\.answer to be batch, and it was published as interactive",),
    "test_forgets": (
        r"expected \S+\.forgets to bear being stopped, and it failed in run 2: ValueError: lost",
    ),
    "test_deaf": (r"to be stopped after 2 items, and it never was: it never asked",),
    "test_too_few": (r"expected shop\.total to be stopped after 9 items, .* run had 3 items",),
    "test_typo": (r"did you mean 'concurrency'\?, got 'concurency'",),
    "test_no_app": (r'where a process finds the app, as in app="shop\.celery:app", for prefork',),
}


PRODUCTION = """
app.conf.broker_read_url = "redis://production/1"
app.conf.broker_use_ssl = app.conf.redis_backend_use_ssl = {"ssl_cert_reqs": "required"}
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """The files of the page, in a folder of its own, and all that could lead to production."""
    for name, text in BLOCKS:
        pytester.path.joinpath(name).write_text(text)
    with pytester.path.joinpath("shop.py").open("a") as file:
        file.write(PRODUCTION)
    monkeypatch.setenv("APP", "production")
    monkeypatch.setenv("BROKER_URL", "redis://production/0")
    monkeypatch.setenv("CELERY_BROKER_READ_URL", "redis://production/1")
    root = str(PAGE.parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), root]))
    return pytester


def test_the_examples_of_the_page_pass(project):
    assert {name for name, _ in BLOCKS} == {
        "conftest.py",
        "shop.py",
        "test_shop.py",
        "test_more.py",
    }
    result = project.runpytest_subprocess(*FLAGS, timeout=240)
    result.assert_outcomes(passed=7)


def test_what_fails_says_why_and_leaves_nothing(project, monkeypatch):
    for name in ("test_shop.py", "test_more.py"):
        project.path.joinpath(name).unlink()
    project.makepyfile(test_wrong=WRONG)
    monkeypatch.setenv("CELERY_FAIR_TEST_BROKER", "memory")
    result = project.runpytest_subprocess(*FLAGS, "--show-capture=no", timeout=240)
    result.assert_outcomes(failed=6, errors=2, passed=1)
    sections = re.split(
        r"^_{3,} (?:ERROR at setup of )?(test_\w+) _{3,}$", result.stdout.str(), flags=re.M
    )
    said = dict(zip(sections[1::2], sections[2::2], strict=True))
    for test, patterns in SAID.items():
        for pattern in patterns:
            assert re.search(pattern, said[test]), said[test]
