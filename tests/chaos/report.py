"""What a chaos run has to say: the account, and the history of each message gone wrong."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.account import History, Trouble
from tests.chaos.run import Outcome

TOLD = 20
AROUND_SECONDS = 5.0


def failures(outcome: Outcome) -> list[str]:
    """All that is wrong with a run of celery-fair; none of it is forgiven."""
    account = outcome.account
    return [
        *outcome.complaints,
        *(f"lost: {history.key}" for history in account.lost),
        *(f"run twice for no reason: {history.key}" for history in account.unasked),
    ]


def text(outcome: Outcome) -> str:
    """The account of a run on a few lines."""
    name = "plain Celery" if outcome.stock else "celery-fair"
    lines = [
        f"{name}: {outcome.account.line()}",
        f"{name}: {outcome.job}",
        f"{name}: {outcome.most_places} tasks at most had a place at once",
        f"{name}: {outcome.struck} faults in {outcome.seconds:.0f} s",
        *(f"{name}: at rest, {worker}" for worker in outcome.grown),
        *(f"{name}: {failure}" for failure in failures(outcome)[:TOLD]),
    ]
    return "\n".join(lines)


def histories(outcome: Outcome) -> Iterator[str]:
    """The history of each message that was lost, or run twice for no reason."""
    account = outcome.account
    for what, found in (
        ("lost", account.lost),
        ("run twice for no reason", account.unasked),
        ("run twice after a warm shutdown", account.at_stop),
        ("popped and never read", account.unread),
    ):
        for history in found[:TOLD]:
            yield f"{what}: {history.key} ({history.name})\n" + "\n".join(_told(outcome, history))


def _told(outcome: Outcome, history: History) -> Iterator[str]:
    """One message: the journal's lines, what happened around them, and the broker's own books."""
    first, last = history.entries[0].at, history.entries[-1].at
    lines = [
        (entry.at, f"{entry.event} {entry.more.get('worker')} pid {entry.pid} {_more(entry.more)}")
        for entry in history.entries
    ]
    lines += [
        (trouble.at, f"! {_trouble(trouble)}")
        for trouble in outcome.troubles
        if first - AROUND_SECONDS <= trouble.until and trouble.at <= last + AROUND_SECONDS
    ]
    yield from (f"  {at - first:8.3f} {line}" for at, line in sorted(lines))
    if outcome.books is not None:
        for line in outcome.books.history.get(history.key, ()):
            second, _, rest = line.partition(" ")
            yield f"  {int(second) - first:8.0f} Redis: {rest}"


def _more(more: dict[str, object]) -> str:
    left = {name: value for name, value in more.items() if name not in ("worker", "retries")}
    return str(left) if left else ""


def _trouble(trouble: Trouble) -> str:
    return (
        f"{trouble.what} {trouble.worker or 'all'} pid {trouble.pid or '-'}, "
        f"{trouble.until - trouble.at:.2f} s"
    )


def compared(fair: Outcome, stock: Outcome) -> list[str]:
    """What celery-fair did worse than plain Celery with the same seed.

    Chance decides which tasks run when a process dies, so more is what chance would not do: three
    standard deviations of a count.
    """
    found = []
    for what, ours, theirs in (
        ("run again", fair.account.extra_runs, stock.account.extra_runs),
        ("run again at a stop", fair.account.extra_at_stop, stock.account.extra_at_stop),
        ("popped and never read", len(fair.account.unread), len(stock.account.unread)),
    ):
        if ours > theirs + 3 * max(theirs, 1) ** 0.5:
            found.append(f"{ours} {what}, plain Celery {theirs}")
    return found
