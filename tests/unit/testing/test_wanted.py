"""What a test may ask of its worker, and what it is told when it asks for something else."""

from __future__ import annotations

import pytest

from celery_fair.errors import BadOption
from celery_fair.testing import FairWorker
from celery_fair.testing.lending import as_environment
from celery_fair.testing.wanted import Wanted


def test_settings_are_given_as_an_operator_would():
    wanted = Wanted.of((), {"concurrency": 2, "batch_share": 0.5, "before_batch": "shop.rules.ok"})
    assert as_environment(wanted.settings) == {
        "CELERY_FAIR__BATCH_SHARE": "0.5",
        "CELERY_FAIR__BEFORE_BATCH": "shop.rules.ok",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "a number of slots"),
        ({"pool": "gevent"}, "'threads' or 'solo' or 'prefork'"),
        ({"pool": "prefork"}, 'app="shop.celery:app"'),
        ({"batch_shares": 0.5}, "did you mean 'batch_share"),
        ({"before_batch": print}, "for before_batch what JSON can say, .* its dotted name"),
    ],
)
def test_anything_else_is_refused_and_told(options, said):
    with pytest.raises(BadOption, match=said):
        Wanted.of((), options)


def test_at_least_one_task_is_to_start_in_time():
    with pytest.raises(BadOption, match="1 or more"):
        FairWorker.assert_starts_within(object.__new__(FairWorker), 1.0, times=0)
