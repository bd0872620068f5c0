"""Orders: whether all workers have them, and what is still paused."""

from __future__ import annotations

import time

import pytest

from celery_fair import Fair
from celery_fair.doctor import Replies
from celery_fair.doctor.orders import order_findings
from tests.unit.cli.replies import report


def steering(version="1.aa", paused=(), draining=None, refused=()):
    return {
        "version": version,
        "paused": list(paused),
        "draining": draining,
        "refused": dict(refused),
    }


def pause(minutes=1, kind="batch", queue=None):
    return {"kind": kind, "queue": queue, "by": "ann@desk", "at": time.time() - minutes * 60}


@pytest.fixture
def look(make_app):
    fair = Fair.of(make_app())

    def look(**said):
        reports = {node: report(steering=s) if s else report() for node, s in said.items()}
        return {one.id: one for one in order_findings(fair, Replies(reports, {}))}

    return look


def test_workers_with_the_same_orders_are_in_order(look):
    assert look(w1=steering(), w2=steering(), old=None) == {}


def test_workers_with_different_orders_are_found(look):
    found = look(w1=steering(), w2=steering(), w3=steering("2.bb"))
    assert found["F126"].what == "Orders are of version 1.aa on w1, w2, 2.bb on w3"


def test_a_pause_is_a_note_with_who_and_since_when_once_for_all_workers(look):
    found = look(w1=steering(paused=[pause(5)]), w2=steering(paused=[pause(5)]))
    assert found["F127"].severity == "info"
    assert found["F127"].what == "Paused: batch by ann@desk, for 5 min"


def test_a_fresh_pause_is_not_said_to_have_lasted_for_no_minutes(look):
    found = look(w1=steering(paused=[pause(0.2)]))
    assert found["F127"].what == "Paused: batch by ann@desk, for less than a minute"


def test_a_pause_of_an_hour_may_be_forgotten(look):
    old = pause(90, queue="reports")
    found = look(w1=steering(paused=[old]))
    assert found["F127"].severity == "warning"
    assert found["F127"].what == "Paused: reports by ann@desk, for 90 min"


def test_a_drained_worker_is_named(look):
    drained = {"by": "ann@desk", "at": time.time() - 120, "running": 1}
    assert "w1 (drained) by ann@desk, for 2 min" in look(w1=steering(draining=drained))["F127"].what


def test_an_order_that_a_worker_refuses_is_found(look):
    found = look(w1=steering(refused={"batch_share": "over aged_share"}))
    assert found["F128"].what == "Refused: batch_share on w1: over aged_share"
