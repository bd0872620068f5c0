"""What is said upstream of the kind of a task."""

from __future__ import annotations

import pytest
from celery import Celery

from celery_fair import BadOption, Fair


@pytest.fixture
def fair():
    app = Celery("hints", broker="memory://", set_as_current=False)
    fair = Fair(app)
    yield fair
    fair.uninstall()


@pytest.mark.parametrize(
    ("engine", "kind", "hints"),
    [
        ("vllm", "interactive", {"priority": 0}),
        ("vllm", "batch", {"priority": 10}),
        ("openai", "interactive", {"service_tier": "auto"}),
        ("openai", "batch", {"service_tier": "flex"}),
    ],
)
def test_the_kind_in_the_words_of_an_engine(fair, engine, kind, hints):
    with fair.kind(kind):
        assert fair.upstream_hints(engine) == hints


def test_the_kind_is_that_of_the_running_task(fair):
    @fair.app.task(kind="batch")
    def summarize():
        return fair.upstream_hints("vllm")

    assert summarize.apply().get() == {"priority": 10}


def test_other_words_for_a_kind(fair):
    with fair.kind("batch"):
        assert fair.upstream_hints("openai", batch="default") == {"service_tier": "default"}
        assert fair.upstream_hints("vllm", interactive=-5) == {"priority": 10}
    with fair.kind("interactive"):
        assert fair.upstream_hints("vllm", interactive=-5) == {"priority": -5}


@pytest.mark.parametrize("engine", ["vlm", "", None, 7])
def test_an_unknown_engine_is_refused(fair, engine):
    with pytest.raises(BadOption, match=r"upstream_hints\(engine\): expected one of vllm, openai"):
        fair.upstream_hints(engine)


def test_a_word_that_the_field_can_not_have_is_refused(fair):
    with fair.kind("batch"), pytest.raises(BadOption, match="priority as int, got 'low'"):
        fair.upstream_hints("vllm", batch="low")
