"""What renews a claim while its items run."""

from __future__ import annotations

import os
import threading

import pytest

from celery_fair import StateAway
from celery_fair.jobs import insisting
from celery_fair.jobs import leases as module
from celery_fair.jobs.insisting import insist
from celery_fair.jobs.leases import Leases


@pytest.fixture
def renewed(monkeypatch):
    """An event for each renewal, which come at once."""
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.001)
    return threading.Event()


def test_what_is_held_is_renewed_by_one_thread_until_it_is_let_go(renewed):
    leases = Leases()

    def renew():
        renewed.set()
        return True

    with leases.held(renew, pytest.fail), leases.held(renew, pytest.fail):
        assert renewed.wait(5)
        assert sum(one.name == "celery-fair-leases" for one in threading.enumerate()) >= 1
        thread = leases._thread
    with leases.held(renew, pytest.fail):
        assert leases._thread is thread
    assert not leases._held


def test_a_claim_that_is_lost_is_told_of_once(renewed):
    leases = Leases()
    told = []
    with leases.held(lambda: False, lambda: (told.append(1), renewed.set())):
        assert renewed.wait(5)
        leases.renew()
    assert told == [1]


@pytest.mark.parametrize("error", [StateAway(), OSError("what else")])
def test_a_store_that_can_not_be_asked_is_asked_again(renewed, error):
    leases = Leases()
    answers = [error, error]

    def renew():
        if answers:
            raise answers.pop()
        renewed.set()
        return True

    with leases.held(renew, pytest.fail):
        assert renewed.wait(5)


def test_a_child_renews_what_it_holds_and_nothing_of_its_parent(monkeypatch):
    leases = Leases()
    with leases.held(lambda: True, pytest.fail):
        parent = leases._thread
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with leases.held(lambda: True, pytest.fail):
            assert leases._thread is not parent
            assert len(leases._held) == 1


def test_to_insist_is_to_ask_again_until_it_has_taken_too_long(monkeypatch):
    slept = []
    monkeypatch.setattr(insisting.time, "sleep", slept.append)
    monkeypatch.setattr(insisting.time, "monotonic", lambda: sum(slept))

    def away():
        raise StateAway

    with pytest.raises(StateAway):
        insist(away, 10.0)
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert insist(lambda: 7, 0.0) == 7
