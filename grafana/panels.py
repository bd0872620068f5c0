"""What the dashboard shows: rows of panels, each a question, its queries and how they are drawn.

In the queries ``$w`` stands for the workers that were chosen, and ``$rate`` for the range that
Grafana derives from the scrape interval.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """``queries`` are by legend; a legend in braces is a label. ``width`` is of 24 columns."""

    title: str
    description: str
    unit: str
    queries: dict[str, str]
    width: int = 8
    stacked: tuple[str, ...] = ()
    """Legends that are drawn on top of each other."""
    goes_below_0: bool = False
    single: bool = False
    """One number in place of lines over time."""
    alarm: tuple[float, float] | None = None
    """Where a single number turns orange, and red."""


def quantile(q: float, kind: str) -> str:
    return (
        f"histogram_quantile({q}, sum by (le) "
        f'(rate(celery_fair_wait_seconds_bucket{{kind="{kind}", $w}}[$rate])))'
    )


FIRST = [
    Panel(
        "Do people wait? Interactive tasks, until they get a slot",
        "From when a task could run to when the pool took it. Of 100 tasks 5 waited longer than "
        "p95.",
        "s",
        {"p50": quantile(0.5, "interactive"), "p95": quantile(0.95, "interactive")},
    ),
    Panel(
        "Does batch progress? Tasks finished a second",
        "Batch tasks that have left their slot, by how they ended.",
        "ops",
        {"{{outcome}}":
            'sum by (outcome) (rate(celery_fair_finished_total{kind="batch", $w}[$rate])) > 0'},
    ),
    Panel(
        "Who holds the slots?",
        "Slots taken by kind, those that batch may not take (reserve), and all there are.",
        "short",
        {
            "interactive": 'sum(celery_fair_running_tasks{kind="interactive", $w})',
            "batch": 'sum(celery_fair_running_tasks{kind="batch", $w})',
            "reserve": "sum(celery_fair_reserve_slots{$w})",
            "all": "sum(celery_fair_slots{$w})",
        },
        stacked=("interactive", "batch"),
    ),
    Panel(
        "Waiting interactive tasks",
        "Ready at the broker, each queue once, and held by workers.",
        "short",
        {"waiting":
            'sum(max by (queue) (celery_fair_queue_ready_tasks{kind="interactive", $w}))'
            ' + sum(celery_fair_waiting_tasks{kind="interactive", part="held", $w})'},
        width=4, single=True, alarm=(10, 100),
    ),
    Panel(
        "Last start of a batch task",
        "How long ago a batch task last got a slot, on any of the workers.",
        "s",
        {"ago": "time() - max(celery_fair_batch_last_start_timestamp_seconds{$w} > 0)"},
        width=4, single=True, alarm=(60, 600),
    ),
    Panel(
        "Batch's share: received against guaranteed",
        "Of the slot time of the last minutes in which both kinds wanted slots; the mean over "
        "workers, by their slots. Where received is lower for long, see the debt below.",
        "percentunit",
        {
            "received":
                "sum(celery_fair_batch_share_received_ratio{$w} * on (worker, job, instance) "
                "celery_fair_slots{$w}) / sum(celery_fair_slots{$w} and on (worker, job, instance) "
                "celery_fair_batch_share_received_ratio{$w})",
            "guaranteed":
                "sum(celery_fair_batch_share_guaranteed_ratio{$w} * on (worker, job, instance) "
                "celery_fair_slots{$w}) / sum(celery_fair_slots{$w})",
        },
    ),
    Panel(
        "Slots that stood idle while something waited, and why",
        "The price of short waits: reserve is kept for interactive tasks, protected is batch held "
        "back by the gate, arriving is the network.",
        "short",
        {"{{reason}}":
            "sum by (reason) (rate(celery_fair_idle_slot_seconds_total{$w}[$rate]))"},
        stacked=("{{reason}}",),
    ),
]  # fmt: skip

GATE = [
    Panel(
        "Workers whose gate protects",
        "While it protects, batch starts only what it is guaranteed.",
        "short",
        {"protected": "sum(celery_fair_gate_protected{$w})",
         "all": "count(celery_fair_gate_protected{$w})"},
    ),
    Panel(
        "Time in protection",
        "Part of the time, over the workers' mean. Near 100 % for long: too few slots for the "
        "interactive load.",
        "percentunit",
        {"protected": 'avg(rate(celery_fair_gate_seconds_total{mode="protected", $w}[$rate]))'},
    ),
    Panel(
        "Why it changed",
        "Changes a second, by what brought them about.",
        "ops",
        {"{{mode}}: {{cause}}":
            "sum by (mode, cause) (rate(celery_fair_gate_changes_total{$w}[$rate])) > 0"},
    ),
    Panel(
        "What waits at the broker, by queue",
        "Each queue once, as the worker that counts most of it says.",
        "short",
        {"{{kind}}: {{queue}}": "max by (kind, queue) (celery_fair_queue_ready_tasks{$w})"},
    ),
    Panel(
        "What workers hold",
        "Messages that wait for a slot here (held), for their rate limit, or for their time.",
        "short",
        {"{{kind}}: {{part}}":
            'sum by (kind, part) (celery_fair_waiting_tasks{part!="ready", $w})'},
    ),
    Panel(
        "Slot time that batch is owed",
        "Above 0 batch has had less than its guarantee, and will come first.",
        "s",
        {"{{worker}}": "celery_fair_batch_debt_seconds{$w}"},
        goes_below_0=True,
    ),
    Panel(
        "How long batch waits",
        "From when a task could run to when the pool took it.",
        "s",
        {"p50": quantile(0.5, "batch"), "p95": quantile(0.95, "batch")},
    ),
    Panel(
        "What batch may have",
        "Slots that batch may use now, and those it may use when it is owed.",
        "short",
        {"ceiling": "sum(celery_fair_batch_ceiling_slots{$w})",
         "guaranteed": "sum(celery_fair_batch_guaranteed_slots{$w})"},
    ),
    Panel(
        "Workers in which a kind is paused",
        "By an operator: fair status says by whom, and fair resume ends it.",
        "short",
        {"{{kind}}": "sum by (kind) (celery_fair_paused{$w})"},
    ),
    Panel(
        "How soon a slot is back that batch was asked for",
        "From when a running batch task was asked to yield; it sees that at its next item.",
        "s",
        {"mean":
            "sum(rate(celery_fair_yield_slot_back_seconds_total{$w}[$rate])) / "
            "sum(rate(celery_fair_yield_slots_back_total{$w}[$rate]))"},
    ),
    Panel(
        "Batch tasks asked for their slot",
        "A second, and how many of these slots came back: the others weren't needed any more.",
        "ops",
        {"asked": "sum(rate(celery_fair_yields_asked_total{$w}[$rate]))",
         "slots back": "sum(rate(celery_fair_yield_slots_back_total{$w}[$rate]))"},
    ),
]  # fmt: skip

SHARED = [
    Panel(
        "Engine behind the tasks: pressure",
        "How much waits in it, 1 being as much as is fine, as workers with a load probe see it. "
        "Over 1 batch gives way.",
        "short",
        {"highest": "max(celery_fair_engine_pressure{$w})",
         "mean": "avg(celery_fair_engine_pressure{$w})"},
    ),
    Panel(
        "Workers that the engine holds back",
        "Batch has what is left of its share there. Unknown: the load probe gives no answer.",
        "short",
        {"engine queues": "sum(celery_fair_engine_queueing{$w})",
         "unknown": "sum(celery_fair_engine_unknown{$w})"},
    ),
    Panel(
        "Resources: tasks that run, of all places",
        "In all workers together, by kind.",
        "short",
        {"{{resource}}: {{kind}}":
            "max by (resource, kind) (celery_fair_resource_running_tasks{$w})",
         "{{resource}}: places": "max by (resource) (celery_fair_resource_places{$w})"},
    ),
    Panel(
        "Resources: tasks that wait for one",
        "Held by workers, for a place or a part of a budget.",
        "short",
        {"{{resource}}: {{kind}}":
            "max by (resource, kind) (celery_fair_resource_waiting_tasks{$w}) > 0"},
    ),
    Panel(
        "Waiting until they are cleared",
        "Held by workers without a slot, for a place, a budget or the hook; and what the hook "
        "says, a second.",
        "short",
        {"{{kind}}": "sum by (kind) (celery_fair_uncleared_tasks{$w})",
         "{{reason}} a second":
            "sum by (reason) (rate(celery_fair_hook_answers_total{$w}[$rate]))"},
    ),
    Panel(
        "Budgets: what is left now",
        "Requests and tokens. Under 0 more was used than estimated, and all wait.",
        "short",
        {"{{resource}}: requests": "max by (resource) (celery_fair_resource_requests_left{$w})",
         "{{resource}}: tokens": "max by (resource) (celery_fair_resource_tokens_left{$w})"},
        goes_below_0=True,
    ),
    Panel(
        "How much longer batch gets none of a resource",
        "It has refused requests (429), with or without a Retry-After.",
        "s",
        {"{{resource}}": "max by (resource) (celery_fair_resource_slowed_seconds{$w})"},
    ),
    Panel(
        "Resources that have refused (429)",
        "The part of its places and budgets that each gets; it comes back by and by.",
        "percentunit",
        {"{{resource}}": "min by (resource) (celery_fair_resource_rate_ratio{$w})"},
    ),
]  # fmt: skip

HEALTH = [
    Panel(
        "Workers that can't see",
        "Blind: nobody can say whether interactive tasks wait at the broker. Without sensor: the "
        "broker's counts can't be read. Alone: the rest of the fleet isn't heard of. Resources "
        "unknown: what workers share can't be asked. Resources away: workers that go by their own "
        "part of it meanwhile.",
        "short",
        {
            "blind": "sum(celery_fair_gate_blind{$w})",
            "without sensor": "count(celery_fair_sensor_available{$w} == 0) or vector(0)",
            "alone": "count(celery_fair_fleet_in_sight{$w} == 0) or vector(0)",
            "resources unknown": "sum(celery_fair_resources_unknown{$w})",
            "resources away": "sum(celery_fair_resources_away{$w})",
        },
    ),
    Panel(
        "How long a look at the broker takes",
        "The slowest and the mean of the workers' last readings.",
        "s",
        {"slowest": "max(celery_fair_sensor_latency_seconds{$w})",
         "mean": "avg(celery_fair_sensor_latency_seconds{$w})"},
    ),
    Panel(
        "Looks at the broker",
        "A second, all workers together.",
        "ops",
        {"readings": "sum(rate(celery_fair_sensor_reads_total{$w}[$rate]))",
         "failures": "sum(rate(celery_fair_sensor_failures_total{$w}[$rate]))"},
    ),
    Panel(
        "What should not happen",
        "In the interval: slots freed by the audit, messages whose header can't be read, observers "
        "that raised, clocks that can't be right, load probes that failed, batch retries put off "
        "or refused.",
        "short",
        {
            "audit corrections": "sum(increase(celery_fair_audit_corrections_total{$w}[$rate]))",
            "unreadable headers": "sum(increase(celery_fair_headers_unreadable_total{$w}[$rate]))",
            "failed observers": "sum(increase(celery_fair_observer_failures_total{$w}[$rate]))",
            "clock skew": "sum(increase(celery_fair_clock_skew_clamps_total{$w}[$rate]))",
            "failed load probes":
                "sum(increase(celery_fair_engine_probe_failures_total{$w}[$rate]))",
            "retries delayed": "sum(increase(celery_fair_batch_retries_delayed_total{$w}[$rate]))",
            "retries refused": "sum(increase(celery_fair_batch_retries_refused_total{$w}[$rate]))",
        },
    ),
    Panel(
        "Messages given back, dropped, or without a header",
        "A second. Those without a header come from publishers without celery-fair.",
        "ops",
        {
            "given back": "sum(rate(celery_fair_given_back_total{$w}[$rate]))",
            "{{reason}}": "sum by (reason) (rate(celery_fair_dropped_total{$w}[$rate])) > 0",
            "no header": "sum(rate(celery_fair_headers_missing_total{$w}[$rate]))",
        },
    ),
    Panel(
        "Workers, versions and the exporter",
        "Left out are metrics of workers of another version. Lost are workers that fell silent, "
        "and the connection of the exporter, in the interval.",
        "short",
        {
            "{{version}} {{mode}}": "count by (version, mode) (celery_fair_worker_info{$w})",
            "left out": "sum(celery_fair_unread_metrics{$w})",
            "lost": "sum(increase(celery_fair_exporter_workers_lost_total[$rate]))",
        },
    ),
]  # fmt: skip

TASKS = [
    Panel(
        "Finished a second",
        "The ten busiest.",
        "ops",
        {"{{kind}}: {{task}}":
            "topk(10, sum by (kind, task) (rate(celery_fair_task_finished_total{$w}[$rate])))"},
        width=12,
    ),
    Panel(
        "Failed, of all that finished",
        "The ten worst; failed, lost and out of time.",
        "percentunit",
        {"{{task}}":
            'topk(10, sum by (task) (rate(celery_fair_task_finished_total{'
            'outcome=~"failed|lost|time_limit", $w}[$rate])) / '
            "sum by (task) (rate(celery_fair_task_finished_total{$w}[$rate])) > 0)"},
        width=12,
    ),
    Panel(
        "Mean wait",
        "The ten that wait longest.",
        "s",
        {"{{kind}}: {{task}}":
            "topk(10, sum by (kind, task) (rate(celery_fair_task_wait_seconds_sum{$w}[$rate])) / "
            "sum by (kind, task) (rate(celery_fair_task_wait_seconds_count{$w}[$rate])))"},
        width=12,
    ),
    Panel(
        "Slots that each takes, on average",
        "Run time a second; the ten that take most.",
        "short",
        {"{{kind}}: {{task}}":
            "topk(10, sum by (kind, task) (rate(celery_fair_task_run_seconds_sum{$w}[$rate])))"},
        width=12,
    ),
]  # fmt: skip

ROWS = {
    "Do people wait? Does batch progress? Who holds the slots?": FIRST,
    "The gate, and what waits": GATE,
    "What workers share: the engine, resources": SHARED,
    "Sensor and health": HEALTH,
    "By task": TASKS,
}
