"""The part of the slots that a kind has while both kinds want all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.testing.told import Watch

__tracebackhide__ = True
"""Of pytest: a failure is shown where the test asks, and not in here."""

RUN_SECONDS: Final = 0.1
"""Of the tasks that are published while a share is measured, so that both kinds wait."""

BUSY_SECONDS: Final = 15.0
"""How long all slots may take to be taken, and each kind to have one, before a share is measured.

A worker that has run no batch task yet supposes that one takes a second, and first owes it that.
"""

Publish = Callable[[Kind], object]


def share_of(
    watch: Watch, publish: Publish, kind: Kind, share: float, seconds: float, batch_share: float
) -> float:
    """Measure it; raises AssertionError where it is smaller, or means nothing."""
    enough = math.ceil(watch.concurrency * seconds / RUN_SECONDS)
    _fill(watch, publish, enough)
    _all_slots_taken(watch)
    _keep_waiting(watch, publish, enough, BUSY_SECONDS, lambda: _each_has_run(watch))
    begin = time.time()
    _keep_waiting(watch, publish, enough, seconds, lambda: False)
    end = time.time()
    had = watch.journal.slot_seconds(begin, end)
    whole = watch.concurrency * (end - begin)
    part = had[kind] / whole
    if part >= share:
        return part
    parts = ", ".join(f"{one} {had[one]:.3g} s" for one in KINDS)
    raise AssertionError(
        f"expected {kind} to have at least {share:.0%} of the slots, and it had {part:.1%}\n"
        f"of {whole:.3g} slot-seconds: {parts}, idle {max(whole - sum(had.values()), 0.0):.3g} s; "
        f"batch_share is {batch_share:g}\n{watch.situation()}"
    )


def _fill(watch: Watch, publish: Publish, enough: int) -> None:
    """Publish of both kinds what could run in all slots all the time."""
    missing = {kind: enough - watch.journal.waiting[kind] for kind in KINDS}
    for number in range(max(missing.values())):
        for kind in KINDS:
            if number < missing[kind]:
                publish(kind)


def _all_slots_taken(watch: Watch) -> None:
    journal = watch.journal
    if journal.wait(lambda: journal.running() >= watch.concurrency, BUSY_SECONDS):
        return
    raise AssertionError(
        f"expected all {watch.concurrency} slots to be taken before a share is measured, and "
        f"{journal.running()} were after {BUSY_SECONDS:g} s\n{watch.situation()}"
    )


def _each_has_run(watch: Watch) -> bool:
    runs = watch.journal.runs
    return all(any(run.kind == kind for run in runs) for kind in KINDS)


def _keep_waiting(
    watch: Watch, publish: Publish, enough: int, seconds: float, until: Callable[[], bool]
) -> None:
    """Return after so many seconds, or once ``until()`` is true.

    Raises AssertionError if a kind has not waited meanwhile.
    """
    journal = watch.journal
    begin = time.monotonic()
    while (left := begin + seconds - time.monotonic()) > 0 and not until():
        journal.wait(
            lambda: until() or min(journal.waiting[kind] for kind in KINDS) <= enough // 2, left
        )
        dry = next((kind for kind in KINDS if journal.waiting[kind] <= 0), None)
        if dry is not None or journal.is_closed:
            what = f"no {dry} task waited any more" if dry else "the worker ended"
            raise AssertionError(
                f"expected both kinds to wait for {seconds:g} s, and {what} after "
                f"{time.monotonic() - begin:.2g} s, so that a share means nothing: they ran faster "
                f"than this machine publishes; flood with longer ones before\n{watch.situation()}"
            )
        _fill(watch, publish, enough // 2 + watch.concurrency)
