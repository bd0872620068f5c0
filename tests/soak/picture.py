"""RSS, held and backlog over time, as one picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

Record = dict[str, Any]

OURS, STOCK = "#0b6e99", "#b35c00"
MARKS = {"cut": ("v", "connections cut"), "recycle": ("x", "worker recycled")}


def draw(record: Record, path: Path) -> None:
    """Write the picture to ``path``; its suffix says the format."""
    figure, (memory, children, held, backlog, acts) = pyplot.subplots(
        5, 1, sharex=True, figsize=(9, 10), height_ratios=(3, 2, 2, 2, 0.6), layout="constrained"
    )
    _memory(record, memory)
    _children(record, children)
    _held(record, held)
    _backlog(record, backlog)
    _acts(record, acts)
    options = record["options"]
    figure.suptitle(
        f"{options['minutes']:g} min of mixed load on {options['broker']}, {options['pool']}, "
        f"seed {options['seed']}"
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _memory(record: Record, axes: Any) -> None:
    _title(axes, "RSS, main process, MB")
    judged: list[float] = []
    for side, colour in (("fair", OURS), ("stock", STOCK)):
        for node, style, width in (("lasting", "-", 1.8), ("recycled", ":", 1.0)):
            points = list(_of_processes(record, side, node, lambda of: of["rss"] / 2**20))
            label = f"{_named(side)}, {node}"
            axes.plot(*_columns(points), style, color=colour, linewidth=width, label=label)
            if node == "lasting":
                judged += [value for _, value in points if value == value]
    # A worker that has just been started is still small, which would flatten the rest.
    axes.set_ylim(min(judged) - 4, max(judged) + 2)
    _legend(axes)


def _children(record: Record, axes: Any) -> None:
    _title(axes, "RSS of a pool child, mean, MB (dips: new children)")
    for side, colour in (("fair", OURS), ("stock", STOCK)):
        points = _of_processes(
            record,
            side,
            "lasting",
            lambda of: of["children_rss"] / max(of["children"], 1) / 2**20,
        )
        axes.plot(*_columns(points), color=colour, linewidth=1.2, label=_named(side))
    _legend(axes)


def _held(record: Record, axes: Any) -> None:
    _title(axes, "held by both workers")
    for kind, style in (("interactive", "-"), ("batch", "--")):
        points = [
            (sample["at"], sum(probe["waits"][kind]["held"] for probe in _probes(sample, "fair")))
            for sample in record["samples"]
        ]
        axes.plot(*_columns(points), style, color=OURS, linewidth=1.2, label=f"fair, {kind}")
    points = [
        (
            sample["at"],
            sum(
                probe["busy"]["reserved"] - probe["busy"]["active"]
                for probe in _probes(sample, "stock")
            ),
        )
        for sample in record["samples"]
    ]
    axes.plot(*_columns(points), color=STOCK, linewidth=1.0, label="stock (reserved, not running)")
    _legend(axes)


def _backlog(record: Record, axes: Any) -> None:
    _title(axes, "ready at the broker")
    for side, colour in (("fair", OURS), ("stock", STOCK)):
        for queue, style in (("celery", "-"), ("celery.batch", "--")):
            points = [(one["at"], one[side]["ready"][queue] or 0) for one in record["samples"]]
            label = f"{_named(side)}, {queue}"
            axes.plot(*_columns(points), style, color=colour, linewidth=1.2, label=label)
    _legend(axes)


def _acts(record: Record, axes: Any) -> None:
    for height, (name, (marker, label)) in enumerate(MARKS.items()):
        times = [act["at"] / 60 for act in record["acts"] if act["name"] == name]
        axes.plot(times, [height] * len(times), marker, color="black", markersize=4, label=label)
    axes.set_yticks(range(len(MARKS)), [label for _, label in MARKS.values()], fontsize="small")
    axes.set_ylim(-0.6, len(MARKS) - 0.4)
    axes.set_xlabel("minutes")


def _of_processes(
    record: Record, side: str, node: str, read: Callable[[Record], float]
) -> Iterator[tuple[float, float]]:
    for sample in record["samples"]:
        processes = sample[side]["processes"].get(f"{node}@{side}")
        yield sample["at"], read(processes) if processes else float("nan")


def _probes(sample: Record, side: str) -> list[Record]:
    return list(sample[side]["probes"].values())


def _columns(points: Any) -> tuple[list[float], list[float]]:
    """Minutes, and values."""
    points = list(points)
    return [at / 60 for at, _ in points], [value for _, value in points]


def _named(side: str) -> str:
    return side


def _legend(axes: Any) -> None:
    """Beside the title, where it hides nothing."""
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize="x-small", frameon=False
    )


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize="medium")
    axes.grid(alpha=0.3)
