"""Bursts upon a process that knew nothing yet, and forks in the midst of a count."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

import pytest
from celery import Celery

from celery_fair import Fair, QueueFull
from celery_fair.admission.backlog import Backlog
from celery_fair.worker.links import Answer

THREADS = 20


class Full:
    """A broker with a thousand waiting, which takes its time to say so."""

    def ask(self, queues: list[str], member: object) -> Answer:
        time.sleep(0.03)
        return Answer(dict.fromkeys(queues, 1000), {})

    def words(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None: ...


@pytest.fixture
def fair() -> Iterator[Fair]:
    app = Celery("bursts", broker="memory://", set_as_current=False)
    fair = Fair(app, interactive_max_backlog=10)
    fair.admission.backlog = Backlog(fair, connect=lambda _: Full())  # type: ignore[arg-type]
    yield fair
    fair.uninstall()


def admitted(fair: Fair) -> int:
    """How many of a burst are let in."""
    together = threading.Barrier(THREADS)
    let_in: list[bool] = []

    def ask() -> None:
        together.wait()
        try:
            fair.admit("interactive")
            let_in.append(True)
        except QueueFull:
            pass

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return len(let_in)


def test_all_of_a_burst_wait_for_the_reading_of_the_first(fair: Fair) -> None:
    assert admitted(fair) == 0
    assert fair.admission.facts().reads == 1


def test_a_burst_after_a_lull_waits_for_a_new_reading(fair: Fair) -> None:
    clock = [100.0]
    fair.admission.backlog = Backlog(
        fair,
        connect=lambda _: Full(),  # type: ignore[arg-type, return-value]
        clock=lambda: clock[0],
    )
    assert admitted(fair) == 0
    clock[0] += 60
    assert admitted(fair) == 0
    assert fair.admission.facts().reads == 2


Lock = Callable[[Fair], AbstractContextManager[object]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(
    "lock", [lambda fair: fair.admission.backlog._count_lock, lambda fair: fair.admission._lock]
)
def test_a_fork_while_another_thread_counts_leaves_no_shut_lock(fair: Fair, lock: Lock) -> None:
    with pytest.raises(QueueFull):
        fair.admit("interactive")
    with lock(fair):  # as if by another thread, which the child doesn't have
        child = os.fork()
        if child == 0:
            signal.alarm(5)  # its default is to end the process
            fair.admission.backlog.published("interactive")
            try:
                fair.admit("interactive")
            except QueueFull:
                os._exit(0)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
