"""A hook is asked beside the loop: each question ends once, however the hook behaves."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from celery_fair import BadOption
from celery_fair.before import Admit, Delay, HeldTask, Refuse, Reroute
from celery_fair.worker.clearing import questions
from celery_fair.worker.clearing.questions import STUCK, THREADS, Questions
from tests.brokers.waiting import wait_until

TASK = HeldTask("shop.report", "an-id", (1,), {}, None, "celery.batch", 0.0, 0)


def ended(asked: Questions, count: int) -> list[questions.Question]:
    found: list[questions.Question] = []
    wait_until(lambda: len(found) >= count or found.extend(asked.ended()), f"{count} answers")
    return found


@pytest.mark.parametrize("answer", [Admit(), Delay(2.0), Reroute("slow"), Refuse("why")])
def test_what_it_answers_is_told_once_and_the_loop_is_woken(answer):
    asked, woken = Questions(lambda task: answer, 60.0), threading.Event()
    asked.wake = woken.set
    asked.ask("a subject", TASK)
    assert woken.wait(30)
    (question,) = ended(asked, 1)
    assert (question.subject, question.answer, question.error) == ("a subject", answer, None)
    asked.look(monotonic() + 3600)
    assert asked.ended() == []
    asked.stop()


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (lambda task: None, "expected Admit, Delay, Reroute or Refuse, got NoneType"),
        (lambda task: Admit, "expected Admit, Delay, Reroute or Refuse, got type"),
        (lambda task: 1 / 0, "it raised ZeroDivisionError"),
        (lambda task: Delay(-1), "it raised BadOption"),
    ],
)
def test_what_is_no_answer_is_an_error_in_words(hook, error):
    asked = Questions(hook, 60.0)
    asked.ask(1, TASK)
    (question,) = ended(asked, 1)
    assert (question.answer, question.error) == (None, error)
    asked.stop()


def test_one_that_hangs_is_given_up_and_its_late_answer_is_nobodys():
    go, begun = threading.Event(), threading.Event()

    def hook(task):
        begun.set()
        go.wait(60)
        return Admit()

    asked = Questions(hook, 0.5)
    asked.ask(1, TASK)
    assert begun.wait(30)
    asked.look(monotonic())
    assert asked.ended() == []
    asked.look(monotonic() + 0.5)
    (question,) = asked.ended()
    assert question.error == "no answer within 0.5 s"
    assert asked.stuck == 1
    go.set()
    wait_until(lambda: asked.stuck == 0, "the thread to come back")
    assert asked.ended() == []
    asked.stop()


def test_those_that_hang_keep_nobody_waiting_until_there_are_too_many():
    go, hanging = threading.Event(), threading.Semaphore(0)

    def hook(task):
        hanging.release()
        go.wait(60)
        return Admit()

    asked = Questions(hook, 1.0)
    for number in range(THREADS + STUCK + 1):
        asked.ask(number, TASK)
    for _ in range(THREADS):
        assert hanging.acquire(timeout=30)
    later, given_up = monotonic(), []
    while asked.stuck < THREADS + STUCK:
        later += 1.0
        before = asked.stuck
        asked.look(later)
        given_up += asked.ended()
        for _ in range(min(asked.stuck - before, THREADS + STUCK - asked.stuck)):
            assert hanging.acquire(timeout=30)  # another thread has taken the next
    asked.look(later + 1.0)
    given_up += asked.ended()
    assert given_up[-1].error == "every thread that asks hangs in it"
    assert len(given_up) == THREADS + STUCK + 1
    go.set()
    wait_until(lambda: asked.stuck == 0, "all to come back")
    asked.stop()


@pytest.mark.parametrize("bad", [0, -1, float("inf"), float("nan"), True, "5", 8 * 86_400])
def test_a_delay_is_a_time_that_ends(bad):
    with pytest.raises(BadOption, match=r"Delay\(…\): expected seconds over 0, and at most a week"):
        Delay(bad)


@pytest.mark.parametrize("make", [Reroute, Refuse])
@pytest.mark.parametrize("bad", ["", None, 7])
def test_a_queue_and_a_reason_are_texts(make, bad):
    with pytest.raises(BadOption):
        make(bad)
