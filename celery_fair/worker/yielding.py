"""Asking running tasks to yield: on the board, as soon as an interactive task finds no slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.policy.yields import Candidate, Demand, YieldRules, able, choose
from celery_fair.worker.slots import Slot
from celery_fair.yielding.board import Board, Cell, digest_of

if TYPE_CHECKING:
    from celery_fair.worker.dispatcher import Dispatcher

SPARE_CELLS: Final = 256
"""Beyond the pool's largest size: ``pool_grow`` knows none."""

BACK_WEIGHT: Final = 0.2
"""Of the latest time in the mean of those that slots took to come back."""


class Asked(NamedTuple):
    """A running task that is asked."""

    cell: Cell
    at: float


class Figures:
    """What asking has come to in one worker; times are seconds."""

    def __init__(self) -> None:
        self.asked = self.withdrawn = self.reactions = self.slots_back = 0
        self.reaction_seconds = self.slot_back_seconds = 0.0
        self.slowest_slot_seconds = 0.0

    def report(self) -> dict[str, Any]:
        """As facts; the sums are since the worker started."""
        return {name: round(value, 6) for name, value in vars(self).items()}


class Asking:
    """Of one worker; what it decides by is `celery_fair.policy.yields`.

    All is done in the loop, with the dispatcher's lock held, and costs nothing before a task has
    used what can yield.
    """

    def __init__(self, dispatcher: Dispatcher, cells: int, rules: Callable[[], YieldRules]) -> None:
        self._dispatcher = dispatcher
        self.rules = rules
        self._most = 0
        self.board, self.path = Board.named(cells + SPARE_CELLS)
        self.enforcing = True
        self.possible = False
        """Whether any task here could ever yield: the one look that all others pay for."""
        self.asked: dict[Slot, Asked] = {}
        self.figures = Figures()
        self._yield: set[str] = set()
        """Names of batch tasks that could be asked when they had run for their minimum."""

    def tick(self, now: float) -> int:
        """Look again; return for how many interactive tasks a slot could be had within an item."""
        self.possible = self.enforcing and self.board.seen
        if not self.possible:
            return 0
        self.look(now)
        self._tell_policy(now)
        demand = self._demand(now)
        most = demand.batch_running - demand.batch_floor
        if most <= 0:
            return 0
        return min(len(able(self._candidates(now)[0], self.rules())), most)

    def look(self, now: float) -> None:
        """Ask whom it takes, and nobody who is not needed any more."""
        demand = self._demand(now)
        if not demand.wanted and not self.asked:
            return
        candidates, cells = self._candidates(now)
        choice = choose(demand, candidates, self.rules())
        for slot in choice.withdraw:
            self.board.withdraw(self.asked.pop(slot).cell)  # type: ignore[call-overload]
            self.figures.withdrawn += 1
        for slot in choice.ask:
            self.asked[slot] = Asked(cells[slot], now)  # type: ignore[index]
            self.board.ask(cells[slot])
            self.figures.asked += 1

    def left(self, slot: Slot) -> None:
        """A slot was given back, perhaps by one that was asked."""
        asked = self.asked.pop(slot, None)
        if asked is None:
            return
        figures, reacted_at = self.figures, self.board.reacted_at(asked.cell)
        seconds = slot.finished_at - asked.at
        policy = self._dispatcher.policy
        known = policy.slot_back_seconds or seconds
        policy.slot_back_seconds = known + (seconds - known) * BACK_WEIGHT
        figures.slots_back += 1
        figures.slot_back_seconds += seconds
        figures.slowest_slot_seconds = max(figures.slowest_slot_seconds, seconds)
        if reacted_at is not None:
            figures.reactions += 1
            figures.reaction_seconds += max(reacted_at - asked.at, 0.0)

    def ask_all(self) -> None:
        """The worker ends: whatever can yield does, so that it need not be waited for."""
        if self.enforcing:
            self.board.ask_all()

    def begins(self, task: str, now: float) -> None:
        """A batch task of that name takes a slot while running batch stands in for the reserve.

        Of one that was never seen to yield nobody knows how long it keeps the slot. So the reserve
        is back at once, before the next.
        """
        if task not in self._yield:
            self._dispatcher.policy.rely_on_yields(0.0, now)

    def _tell_policy(self, now: float) -> None:
        """How often a slot could be had, if each batch task that runs can yield.

        Of those younger than their minimum the name tells: they may not have come to a look yet.
        """
        rules, policy = self.rules(), self._dispatcher.policy
        batch = [slot for slot in self._dispatcher.slots if slot.kind == BATCH]
        ran = [slot for slot in batch if now - slot.started_at >= rules.min_seconds]
        found = self._candidates(now)[0]
        can = {one.key for one in found if rules.is_light(one) and not one.is_late}
        self._yield |= {slot.request.task.name for slot in ran if slot in can}
        self._yield -= {slot.request.task.name for slot in ran if slot not in can}
        if batch:  # without any, what is known holds
            every = all(slot.request.task.name in self._yield for slot in batch)
            often = rules.slots_a_second(policy.running_batch) if every else 0.0
            policy.rely_on_yields(often, now)

    def _demand(self, now: float) -> Demand:
        lane = self._dispatcher.lanes.get(INTERACTIVE)
        return self._dispatcher.policy.demand(0 if lane is None else len(lane.held), now)

    def _candidates(self, now: float) -> tuple[list[Candidate], dict[Any, Cell]]:
        """Return the batch tasks that run and can yield, and the cell of each."""
        dispatcher = self._dispatcher
        self._most = max(self._most, dispatcher.policy.slots)
        cells = {cell.digest: cell for cell in self.board.in_use(self._most)}
        found: list[Candidate] = []
        of_slot: dict[Any, Cell] = {}
        for slot in dispatcher.slots if cells else ():
            cell = cells.get(_digest(slot.request)) if slot.kind == BATCH else None
            if cell is None:
                continue
            asked = self.asked.get(slot)
            setup = max(cell.entered_at - slot.started_at, 0.0)
            since = None if asked is None else now - asked.at
            found.append(Candidate(slot, now - slot.started_at, setup, since))
            of_slot[slot] = cell
        for slot, asked in self.asked.items():  # those on their way out have no cell any more
            if slot not in of_slot:
                found.append(Candidate(slot, now - slot.started_at, 0.0, now - asked.at))
        return found, of_slot


def _digest(request: Any) -> int:
    known: int | None = request.__dict__.get("fair_digest")
    if known is None:
        known = request.fair_digest = digest_of(request.id)
    return known
