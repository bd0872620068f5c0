"""How a worker asks its probe, and what it makes of one that fails."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from celery_fair import FairSettings, SettingsError
from celery_fair.engine import EngineLoad
from celery_fair.engine.probing import Probing, probe_of
from tests.brokers.waiting import wait_until


class Probe:
    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def test_without_a_probe_there_is_nothing():
    assert Probing.of(FairSettings.load({}, {}, {})) is None


def test_an_answer_is_known_for_five_intervals():
    probing = Probing(Probe(0.5), 2.0)
    probing.look()
    now = monotonic()
    assert probing.load(now + 9.9) == EngineLoad(0.5)
    assert probing.load(now + 10.1) is None
    assert probing.age_seconds(now) < 5


def test_a_failure_is_said_once_and_the_next_answer_too(caplog):
    caplog.set_level("INFO", "celery_fair")
    probing = Probing(Probe(1.5, OSError("no route"), ValueError("odd"), "full", 0.5), 1.0)
    for _ in range(4):
        probing.look()
    assert probing.load(monotonic()) == EngineLoad(1.5)  # still new enough
    assert "expected an EngineLoad" in probing.failing
    assert probing.failures == 3
    assert probing.load(monotonic() + 60) is None
    assert "expected an EngineLoad" in probing.failing
    probing.look()
    assert probing.failing == ""
    first, last = [record.message for record in caplog.records]
    assert "the load probe fails (OSError: no route)" in first
    assert last == "celery-fair: the load probe answers again"


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SystemExit(1), "SystemExit: 1"),
        (MuteError(), "MuteError"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (OSError("x" * 10_000), "OSError: " + "x" * 111),
    ],
)
def test_whatever_it_raises_it_is_asked_again(raised, told):
    probing = Probing(Probe(raised, 0.5), 1.0)
    probing.look()
    assert probing.failing == told
    probing.look()
    assert probing.failing == ""


def test_a_probe_that_hangs_is_said_once_and_its_load_unknown(caplog):
    hanging = threading.Event()
    probing = Probing(hanging.wait, 1.0)
    probing.start()
    try:
        later = monotonic() + 5.1
        assert probing.load(monotonic()) is None
        assert not caplog.records
        assert probing.load(later) is None
        assert probing.load(later) is None
        assert [record.message.count("no answer for 5 s") for record in caplog.records] == [1]
    finally:
        probing.stop()
        hanging.set()
        probing._thread.join()


def test_its_thread_asks_again_and_ends_when_told():
    asked = []
    probing = Probing(lambda: asked.append(1) or len(asked), 0.01)
    probing.start()
    probing.start()
    wait_until(lambda: len(asked) >= 3)
    probing.stop()
    probing._thread.join(10)
    assert not probing._thread.is_alive()


class Probes:
    @staticmethod
    def of_vllm():
        return 0

    async def __call__(self):
        return 0


waited_for = Probes()


def test_a_dotted_name_leads_to_a_probe():
    assert probe_of("tests.unit.engine.test_probing:Probes.of_vllm")() == 0
    assert probe_of("math.floor")(1.5) == 1
    assert probe_of(Probes.of_vllm) is Probes.of_vllm


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("no.such.module", "ModuleNotFoundError"),
        ("math.no_such_name", "AttributeError"),
        ("math.pi", "a float"),
        ("celery_fair.engine.VLLMLoad", "the class VLLMLoad, and no object of it"),
        (f"{__name__}.waited_for", "a coroutine function"),
        ("tests.unit.engine.broken.probe", "RuntimeError: no configuration"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(name, got):
    with pytest.raises(SettingsError, match=rf"load_probe='{name}'.*got {got}"):
        probe_of(name)


def test_what_is_shown_of_a_probe_is_its_name():
    shown = FairSettings.load({"load_probe": Probe(1)}, {}, {}).shown()
    assert shown == {"load_probe": f"{__name__}.Probe"}
    assert FairSettings.load({"load_probe": "a.b"}, {}, {}).shown() == {"load_probe": "a.b"}
    assert FairSettings.load({}, {}, {}).shown() == {}
