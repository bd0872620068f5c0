"""Prints the dashboard: ``python grafana/dashboard.py > grafana/dashboard.json``.

Needs `celery-fair[grafana]`, and is run by hand when panels.py changes.

Grafana's own SDK knows the schema (that of Grafana 10.1; newer ones read it), so that a misspelt
option is an error here and not an empty panel there.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from panels import ROWS, Panel

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
COLORS = {"interactive": "blue", "batch": "orange", "reserve": "light-blue", "all": "text"}


def query(expression: str) -> str:
    """The expression as Grafana has it."""
    return expression.replace("$w", 'worker=~"$worker"').replace("$rate", "$__rate_interval")


def target(legend: str, expression: str, letter: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(query(expression)).legend_format(legend).ref_id(letter)


def panel(of: Panel, number: int) -> Any:
    builder = number_of(of) if of.single else lines_of(of)
    builder = builder.id(number).title(of.title).description(of.description).unit(of.unit)
    builder = builder.datasource(SOURCE).span(of.width).height(8)
    for letter, (legend, expression) in zip("ABCDEFGH", of.queries.items(), strict=False):
        builder = builder.with_target(target(legend, expression, letter))
    return builder


def lines_of(of: Panel) -> timeseries.Panel:
    builder = (
        timeseries.Panel()
        .draw_style(GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(10)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .tooltip(
            common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
        )
    )
    if not of.goes_below_0:
        builder = builder.min(0)
    stacking = {"mode": StackingMode.NORMAL.value, "group": "A"}
    if of.stacked == tuple(of.queries):
        builder = builder.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    for legend in of.queries:
        properties = []
        if legend in COLORS:
            fixed = {"mode": "fixed", "fixedColor": COLORS[legend]}
            properties.append(DynamicConfigValue("color", fixed))
        if legend in of.stacked and of.stacked != tuple(of.queries):
            properties.append(DynamicConfigValue("custom.stacking", stacking))
            properties.append(DynamicConfigValue("custom.fillOpacity", 60))
        if properties:
            builder = builder.override_by_name(legend, properties)
    return builder


def number_of(of: Panel) -> stat.Panel:
    builder = (
        stat.Panel()
        .graph_mode(BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    )
    if of.alarm is not None:
        orange, red = of.alarm
        steps = [Threshold(None, "green"), Threshold(orange, "orange"), Threshold(red, "red")]
        thresholds = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
        builder = builder.thresholds(thresholds)
    return builder


def variables() -> list[Any]:
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    return [
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        dashboard.QueryVariable("worker")
        .label("Worker")
        .datasource(SOURCE)
        .query("label_values(celery_fair_slots, worker)")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(everything),
    ]


def build() -> str:
    """The JSON of the whole dashboard."""
    numbers = count(1)
    board = (
        dashboard.Dashboard("celery-fair")
        .uid("celery-fair")
        .description("Interactive and batch tasks on the same Celery workers.")
        .tags(["celery", "celery-fair"])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("15s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .variables(variables())
    )
    for title, panels in ROWS.items():
        board = board.with_row(dashboard.Row(title).id(next(numbers)))
        for one in panels:
            board = board.with_panel(panel(one, next(numbers)))
    return json.dumps(board.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(build())
