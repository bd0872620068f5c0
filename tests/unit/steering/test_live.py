"""Which settings can be set live, and what an order to set one comes to in a worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from celery_fair.errors import SettingsError
from celery_fair.settings import DEFAULT, LIVE, FairSettings
from celery_fair.steering import EVERYBODY, Order
from celery_fair.steering.live import FIXED, LIVE_SETTINGS, known_live, lived, read_assignment
from celery_fair.worker.steering.settings import LiveSettings

BASE = FairSettings.load({"batch_share": 0.25}, {"protect_backlog": 5}, {})


def set_(name, value=None, *, on=True, counter=1, scope=EVERYBODY, by="ann@host"):
    return Order(scope, f"set:{name}", on, value, counter, f"id{counter}", by, 10.0 + counter)


@pytest.fixture
def live():
    def check(settings):
        if settings.reserve == 3:
            raise SettingsError(["expected reserve to be at most 2, got: 3"])

    return LiveSettings(BASE, check)


def test_each_setting_can_be_set_live_or_says_why_not():
    assert LIVE_SETTINGS | FIXED.keys() == FairSettings.model_fields.keys()
    assert not LIVE_SETTINGS & FIXED.keys()


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_cant_be_set_says_what_to_do(name):
    with pytest.raises(SettingsError, match=f"{name} can't be changed in a running worker: .*"):
        known_live(name)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    with pytest.raises(SettingsError, match="did you mean 'batch_share'"):
        known_live("batch_shar")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch_share=.3", ("batch_share", 0.3)),
        ("BATCH_SHARE = 0.3", ("batch_share", 0.3)),
        ("reserve=auto", ("reserve", "auto")),
        ("batch_timeout_seconds=none", ("batch_timeout_seconds", None)),
    ],
)
def test_a_value_is_read_as_the_environment_would_be(text, value):
    assert read_assignment(text) == value


@pytest.mark.parametrize("text", ["batch_share", "batch_share=", "=0.3", ""])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(SettingsError):
        read_assignment(text)


def test_values_are_checked_as_at_the_start_and_together():
    with pytest.raises(SettingsError, match=r"batch_share: expected a share in \(0, 0.5\]"):
        lived(BASE, {"batch_share": 0.7})
    with pytest.raises(SettingsError, match="aged_share: expected a share from batch_share"):
        lived(BASE, {"aged_share": 0.2})
    assert lived(BASE, {"aged_share": 0.2, "batch_share": 0.1}).aged_share == 0.2


def test_sources_are_told_apart():
    settings = lived(BASE, {"reserve": 2})
    sources = ("reserve", "batch_share", "protect_backlog", "mode")
    assert [settings.source(name) for name in sources] == [
        LIVE, "app.conf.fair['batch_share']", "Fair(protect_backlog=…)", DEFAULT,
    ]  # fmt: skip


def test_an_order_shows_what_was_and_what_is_and_who_it_was(live):
    (change,) = live.follow([set_("batch_share", 0.4)])
    assert change == ("batch_share", 0.25, 0.4, "ann@host", 11.0)
    assert live.settings.batch_share == 0.4


def test_unset_goes_back_to_what_the_worker_was_started_with(live):
    live.follow([set_("batch_share", 0.4)])
    live.follow([set_("batch_share", on=False, counter=2)])
    assert live.settings == BASE


def test_of_one_command_nothing_is_taken_if_one_part_cant_be(live):
    assert live.follow([set_("batch_share", 0.4), set_("reserve", 3)]) == []
    assert live.settings == BASE
    assert live.refused.keys() == {"batch_share", "reserve"}


def test_another_commands_order_is_taken_all_the_same_and_what_was_stays(live):
    live.follow([set_("reserve", 2)])
    live.follow([set_("reserve", 3, counter=2), set_("batch_share", 0.4, counter=3)])
    assert (live.settings.reserve, live.settings.batch_share) == (2, 0.4)
    assert "at most 2" in live.refused["reserve"]


def test_what_was_refused_is_tried_again_with_whatever_comes_next(live):
    share, aged = set_("batch_share", 0.1, counter=3), set_("aged_share", 0.2, counter=2)
    live.follow([aged])
    assert live.refused.keys() == {"aged_share"}, "0.2 is less than the share"
    live.follow([aged, share])
    live.follow([aged, share, set_("log_tasks", 0.5, counter=4)])
    assert (live.settings.batch_share, live.settings.aged_share) == (0.1, 0.2)
    assert not live.refused


def test_a_proposal_changes_nothing(live):
    assert live.proposed([set_("batch_share", 0.4)]).batch_share == 0.4
    with pytest.raises(SettingsError):
        live.proposed([set_("reserve", 3)])
    assert live.settings is BASE


def test_the_page_names_what_can_be_set_live():
    page = (Path(__file__).parents[3] / "docs" / "steering.md").read_text(encoding="utf-8")
    named = page.split("Can be set live:")[1].split("The others")[0]
    assert set(re.findall(r"`(\w+)`", named)) == LIVE_SETTINGS


def test_who_hears_of_all_orders_at_once_ends_as_those_who_heard_of_them_one_by_one(live):
    share, aged = set_("batch_share", 0.1, counter=1), set_("aged_share", 0.15, counter=2)
    share_again = set_("batch_share", 0.15, counter=3)
    for known in ([share], [share, aged], [share_again, aged]):
        live.follow(known)
    late = LiveSettings(BASE, lambda settings: None)
    late.follow([aged, share_again])  # alone, the first is less than the share at the start
    assert (late.settings, late.refused) == (live.settings, {})


def test_one_that_cant_be_had_keeps_none_from_those_that_need_each_other(live):
    aged, share = set_("aged_share", 0.15, counter=2), set_("batch_share", 0.15, counter=3)
    live.follow([set_("reserve", 3), aged, share])
    assert live.settings.aged_share == 0.15
    assert live.refused.keys() == {"reserve"}
