"""What to change, how sure that is, what binds, and what else could be had."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from celery_fair.advise.erlang import slots_for
from celery_fair.advise.load import Load
from celery_fair.advise.measure import Candidate
from celery_fair.advise.search import PIECES, SEEDS, Effort, OutOfTimeError, Search
from celery_fair.advise.targets import Done, KeepsUp, Rate, Target, Wait
from celery_fair.advise.verdict import MARGIN, Verdict
from celery_fair.policy.kinds import BATCH, INTERACTIVE

FRESH_SEEDS: Final = 3
"""Those that an answer is tried on again: it was chosen for how it did on the ones before."""
_FOR_CURVE: Final = 0.15
_FOR_PIECES: Final = 0.2
_SLOWER: Final = 5
"""So many times slower than a usual core one may be."""
_MOST_POINTS: Final = 8
_CURVE_SEEDS: Final = 2


@dataclass(frozen=True, slots=True)
class Needs:
    """What the formula says, in slots of all workers. ``guess``: of each."""

    interactive: float
    batch: float
    least: int
    guess: int
    interactive_for_wait: int


@dataclass(slots=True)
class Advice:
    """The answer. ``best`` is None where nothing was found within the bounds."""

    targets: tuple[Target, ...]
    workers: int
    most_slots: int
    needs: Needs
    today: Verdict | None = None
    best: Verdict | None = None
    nearest: Verdict | None = None
    """With one slot fewer than ``best``, or the most there may be: what came nearest."""
    with_pieces: Verdict | None = None
    """What would do with fewer slots, if batch yielded (oftener)."""
    with_more: Verdict | None = None
    """What would do beyond the bound."""
    curve: list[Verdict] = field(default_factory=list)
    curve_today: list[Verdict] = field(default_factory=list)
    unsure: bool = False
    """Whether the search was cut short before it knew that fewer slots won't do."""
    runs: int = 0
    cut: str = ""


def needs(load: Load, targets: Sequence[Target], workers: int, margin: float = MARGIN) -> Needs:
    """The first guess: Erlang C for the waits of interactive tasks, and batch beside them."""
    interactive = load.streams[INTERACTIVE]
    beside = max((_batch_slots(load, one) for one in targets), default=0.0)
    waits = [one for one in targets if isinstance(one, Wait) and one.kind == INTERACTIVE]
    alone = max(
        (slots_for(interactive, one.quantile, one.seconds * (1 - margin)) for one in waits),
        default=math.floor(interactive.slots) + 1,
    )
    alone = alone if interactive.rate else 0
    least = math.ceil((interactive.slots + beside) / workers)
    guess = math.ceil((alone + beside) / workers)
    return Needs(interactive.slots, beside, max(least, 1), max(guess, 1), alone)


def _batch_slots(load: Load, target: Target) -> float:
    batch = load.streams[BATCH]
    if isinstance(target, Rate):
        return target.per_second * batch.mean_seconds
    if isinstance(target, Done):
        if load.recorded:
            work = sum(
                one.seconds for one in load.recorded
                if one.kind == BATCH and one.at <= load.published_by
            )  # fmt: skip
            return work / target.seconds
        return load.batch_tasks * batch.mean_seconds / (target.seconds * load.scale)
    return batch.slots * target.part if isinstance(target, KeepsUp) else 0.0


def advise(
    load: Load, targets: Sequence[Target], today: Candidate, *, cost: float,
    most_slots: int, least_piece: float = 1.0, margin: float = MARGIN,
    most_seconds: float = 20.0, first_seed: int = 1,
    step: Callable[[float], None] | None = None,
) -> Advice:  # fmt: skip
    """Find the cheapest settings that meet all targets; ``cost`` is what a run is thought to take.

    ``most_seconds``: of a usual core. The same arguments give the same answer on any machine that
    isn't more than five times as slow.
    """
    workers = load.scenario.workers
    found = Advice(tuple(targets), workers, most_slots, needs(load, targets, workers, margin))
    effort = Effort(most_seconds, _SLOWER * most_seconds, began=time.process_time())
    if step is not None:
        effort.step = step
    search = Search(load, targets, today, effort, margin, cost, first_seed)
    _Advising(search, found, least_piece, most_seconds).run()
    found.runs, found.cut = effort.runs, load.cut
    return found


class _Advising:
    def __init__(self, search: Search, found: Advice, least_piece: float, seconds: float) -> None:
        self._search, self._found = search, found
        self._piece = least_piece
        self._seconds = seconds

    def run(self) -> None:
        """Each part may use what is left of its time, and the answer comes first."""
        kept = _FOR_CURVE + _FOR_PIECES
        parts = (
            (self._look_at_today, 1 - kept), (self._find, 1 - kept),
            (self._find_more, 1 - _FOR_CURVE), (self._try_pieces, 1 - _FOR_CURVE),
            (self._draw_curve, 1.0),
        )  # fmt: skip
        for part, upto in parts:
            self._search.effort.limit = upto * self._seconds
            try:
                part()
            except OutOfTimeError:
                self._found.unsure |= part in (self._look_at_today, self._find)
        self._found.today = self._search.known(self._search.today)

    def _look_at_today(self) -> None:
        self._found.today = self._search.verdict(self._search.today)

    def _find(self) -> None:
        search, found = self._search, self._found
        every = search.today.yields_every
        try:
            found.best = self._surely_fewest(every)
        except OutOfTimeError:
            begun = None if search.best is None else search.known(search.best.candidate)
            if begun is not None and begun.meets():
                found.best = begun
            raise
        finally:
            slots = found.most_slots if found.best is None else found.best.candidate.slots - 1
            found.nearest = search.failed.get((slots, every))

    def _surely_fewest(self, every: float) -> Verdict | None:
        """The fewest slots that are enough, also by seeds that they weren't chosen by."""
        search, found = self._search, self._found
        least = found.needs.least
        enough = found.today is not None and found.today.meets()
        for most in [search.today.slots, found.most_slots] if enough else [found.most_slots]:
            while (best := search.fewest_slots(found.needs.guess, least, most, every)) is not None:
                sure = search.verdict(best.candidate, SEEDS + FRESH_SEEDS, all_seeds=True)
                if sure.meets():
                    return sure
                least = best.candidate.slots + 1
        return None

    def _find_more(self) -> None:
        search, found = self._search, self._found
        most, every = found.most_slots, search.today.yields_every
        least = max(found.needs.least, most + 1)
        if found.best is None and least <= 4 * most:
            found.with_more = search.fewest_slots(found.needs.guess, least, 4 * most, every)

    def _try_pieces(self) -> None:
        search, found = self._search, self._found
        every = search.today.yields_every or math.inf
        pieces = [one for one in PIECES if self._piece <= one < every]
        mean = search.load.streams[BATCH].mean_seconds
        pieces = [one for one in pieces if one < mean]
        if not pieces:
            return
        most = found.most_slots if found.best is None else found.best.candidate.slots - 1
        least = found.needs.least
        shortest = search.fewest_slots(found.needs.guess, least, most, pieces[-1])
        if shortest is not None:
            slots = shortest.candidate.slots
            found.with_pieces = shortest
            longest = search.longest_piece(slots, self._piece, min(every, mean))
            found.with_pieces = longest or shortest

    def _draw_curve(self) -> None:
        search, found = self._search, self._found
        shown = found.best or found.with_more or found.nearest
        if shown is not None:
            self._curve_of(shown.candidate, found.curve)
        today = search.today
        if shown is None or shown.candidate.slots != today.slots:
            self._curve_of(today, found.curve_today)

    def _curve_of(self, candidate: Candidate, into: list[Verdict]) -> None:
        total = candidate.slots * self._found.workers
        most = total - candidate.settings.guaranteed(total)
        step = max(math.ceil((most + 1) / _MOST_POINTS), 1)
        for reserve in range(0, most + 1, step):
            one = candidate.with_settings(reserve=reserve)
            into.append(self._search.verdict(one, _CURVE_SEEDS))
