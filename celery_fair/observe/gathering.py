"""Asks observing workers for the tasks that they have seen, and replays them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from celery_fair.observe.counterfactual import Counterfactual, Watched, counterfactual, read
from celery_fair.observe.finished import PAGE

MOST_TASKS: Final = 50_000
"""In one replay: some seconds of a core."""

Ask = Callable[[Sequence[str], Mapping[str, Any]], Mapping[str, Any]]
"""Asks these workers `fair_observed` with these arguments; returns each one's answer."""


def replay(reports: Mapping[str, Any], silent: Mapping[str, str], ask: Ask,
           most_tasks: int = MOST_TASKS) -> Counterfactual | None:  # fmt: skip
    """What celery-fair would have made of what the workers ran; ``None`` where none observes.

    ``reports`` are the answers to ``fair_status`` and ``silent`` those who run plain Celery. All
    workers must observe, as nobody tells what the others have run.
    """
    observing = [node for node, report in reports.items() if report["mode"] == "observe"]
    if not observing or most_tasks <= 0:
        return None
    why = _others(reports, silent, observing)
    if why is not None:
        return Counterfactual(workers=len(observing), why=why)
    try:
        fleet = gather(observing, ask, most_tasks)
    except (KeyError, TypeError, ValueError) as error:
        why = f"a worker's answer can't be read, of another version perhaps: {error}"
        return Counterfactual(workers=len(observing), why=why)
    if len(fleet) < len(observing):
        missing = ", ".join(sorted(set(observing) - fleet.keys())[:3])
        return Counterfactual(workers=len(observing), why=f"no answer in time from {missing}")
    return counterfactual(list(fleet.values()), most_tasks)


def _others(
    reports: Mapping[str, Any], silent: Mapping[str, str], observing: Sequence[str]
) -> str | None:
    enforcing = sorted(reports.keys() - set(observing))
    if enforcing:
        return f"{enforcing[0]} enforces, so that not all has run in Celery's own order"
    if silent:
        return f"{min(silent)} has no celery-fair, and nobody knows what it has run"
    return None


def gather(nodes: Sequence[str], ask: Ask, most_tasks: int) -> dict[str, Watched]:
    """All that these workers know, the latest ``most_tasks`` of all together at the most.

    After a page of each, those are asked again whose knowledge doesn't reach as far back as the
    others': the time that all know is what counts.
    """
    most = min(max(most_tasks // len(nodes), 1), PAGE)
    first = ask(nodes, {"most": most})
    pages = {node: [answer] for node, answer in first.items() if _is_page(answer)}
    fleet = {node: read(of_node) for node, of_node in pages.items()}
    while fleet and sum(len(one.tasks) for one in fleet.values()) < most_tasks:
        shortest = max(fleet, key=lambda node: fleet[node].since)
        last = pages[shortest][-1]
        if last["first"] <= last["oldest"]:
            break
        answer: Any = ask([shortest], {"before": last["first"], "most": most}).get(shortest)
        if not _is_page(answer) or answer["first"] >= last["first"]:
            break  # it has forgotten them meanwhile, or is gone
        pages[shortest].append(answer)
        fleet[shortest] = read(pages[shortest])
    return fleet


def _is_page(answer: Any) -> bool:
    return isinstance(answer, dict) and "tasks" in answer
