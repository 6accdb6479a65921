"""The chart's dashboards for Grafana: `make reference` writes them.

A table of panels becomes the JSON that Grafana imports: `fleet` for all jobs, `job` for one. The data source is a
variable, so they fit any Prometheus. What the operator's figures call `job` is `exported_job` there: Prometheus' own
`job` names the target.

Keeps: the files in the chart are what this makes (a test compares them); every query is run against a Prometheus
(tests/integration/operator/test_prometheus.py). Does not: have thresholds; charts/flamestream/monitoring/alerts.yaml
has.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "charts" / "flamestream" / "monitoring"
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT = 12, 8
"""Of a panel, in Grafana's grid of 24 columns."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over time, each a query with its legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    text: str = ""
    """A sentence for who asks what is shown."""


def p(share: float, name: str, by: str) -> str:
    """The query of a percentile."""
    rate = f"rate(flamestream_job_{name}_seconds_bucket{MINE[by]}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({', '.join(filter(None, ('le', by)))}) ({rate}))"


MINE: Final = {"exported_job": "", "": '{exported_job="$job"}'}
"""The selector of a query: by job, or of the one that was chosen."""


def rate(name: str, by: str, **labels: str) -> str:
    """The query of a counter's increase a second, summed up."""
    selected = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"sum by ({by}) (rate(flamestream_{name}_total{{{selected}}}[$__rate_interval]))"


def of_job(name: str, by: str = "", **labels: str) -> str:
    """The query of a gauge of the chosen job."""
    selected = ", ".join(f'{label}="{value}"' for label, value in {"exported_job": "$job", **labels}.items())
    return f"max by ({by}) (flamestream_job_{name}{{{selected}}})"


def most(query: str) -> str:
    """The query of the greatest of many lines: a graph has up to 256 vertices."""
    return f"topk(20, {query})"


JOB: Final = "{{exported_job}}"
FLEET: Final = (
    Panel("Jobs by phase", "short", (("sum by (phase) (flamestream_operator_jobs)", "{{phase}}"),)),
    Panel(
        "Conditions", "short", (("sum by (condition) (flamestream_job_condition)", "{{condition}}"),),
        "So many jobs of which each holds.",
    ),
    Panel("Results a second", "ops", ((rate("job_items", "exported_job", direction="out"), JOB),)),
    Panel("Items a second", "ops", ((rate("job_items", "exported_job", direction="in"), JOB),)),
    Panel(
        "Latency to release, p99", "s", ((p(0.99, "release_latency", "exported_job"), JOB),),
        "From a run's entry to the release of its results.",
    ),
    Panel(
        "Busy workers", "percentunit", (('max by (exported_job) (flamestream_job_busy_ratio{workers="mean"})', JOB),),
        "The share of time in which workers did not wait, their mean.",
    ),
    Panel("Since the last epoch", "s", (("max by (exported_job) (flamestream_job_epoch_age_seconds)", JOB),),
        "An idle job takes none."),
    Panel("Since the last result", "s", (("max by (exported_job) (flamestream_job_output_age_seconds)", JOB),)),
    Panel(
        "Recoveries in an hour", "short",
        (("sum by (exported_job, cause) (increase(flamestream_job_recoveries_total[1h]))", JOB + " {{cause}}"),),
    ),
    Panel(
        "Newest audits", "short", (("min by (exported_job) (flamestream_job_audit_clean)", JOB),),
        "Of drills: 1 is clean, 0 found a difference.",
    ),
    Panel("Snapshots", "bytes", (("max by (exported_job) (flamestream_job_snapshot_bytes)", JOB),)),
    Panel("Memory of workers", "bytes", (("max by (exported_job) (flamestream_job_memory_bytes)", JOB),)),
    Panel(
        "The operator", "short",
        (
            ("sum(flamestream_operator_leader)", "leaders"), ("sum(flamestream_operator_queue_depth)", "queue"),
            ("sum(rate(flamestream_operator_reconcile_errors_total[$__rate_interval]))", "errors a second"),
            ("sum(rate(flamestream_operator_api_conflicts_total[$__rate_interval]))", "conflicts a second"),
        ),
    ),
    Panel(
        "Requests to the API server a second", "reqps",
        (
            (
                "sum by (verb, kind) (rate(flamestream_operator_api_requests_total[$__rate_interval]))",
                "{{verb}} {{kind}}",
            ),
        ),
    ),
)  # fmt: skip
ONE: Final = (
    Panel(
        "Items and results a second", "ops",
        ((rate("job_items", "direction", exported_job="$job"), "{{direction}}"),),
    ),
    Panel(
        "Latency", "s",
        tuple(
            (p(share, name, ""), f"{words}, p{share * 100:g}")
            for name, words in (("release_latency", "released"), ("latency", "acknowledged"))
            for share in (0.5, 0.99)
        ),
        "From the entry to the release of the results, by runs; and to the consumer's acknowledgment, by calls.",
    ),
    Panel(
        "Since the last epoch and the last result", "s",
        ((of_job("epoch_age_seconds"), "epoch"), (of_job("output_age_seconds"), "result")),
    ),
    Panel("Conditions", "bool", ((of_job("condition", "condition"), "{{condition}}"),)),
    Panel("Busy workers", "percentunit", ((of_job("busy_ratio", "workers"), "{{workers}}"),)),
    Panel("Workers", "short", ((of_job("workers", "role"), "{{role}}"),)),
    Panel(
        "Recoveries", "short",
        (
            (
                'sum by (cause) (increase(flamestream_job_recoveries_total{exported_job="$job"}[$__rate_interval]))',
                "{{cause}}",
            ),
            (of_job("attempt"), "attempt"),
        ),
    ),
    Panel(
        "Time of recoveries", "s",
        (
            (p(0.99, "recovery", ""), "whole, p99"),
            (
                'sum by (step) (rate(flamestream_job_recovery_step_seconds_sum{exported_job="$job"}[1h]))'
                ' / sum by (step) (rate(flamestream_job_recovery_step_seconds_count{exported_job="$job"}[1h]))',
                "{{step}}, mean of an hour",
            ),
        ),
    ),
    Panel(
        "Time of a snapshot", "s",
        (
            (
                'sum(rate(flamestream_job_snapshot_seconds_sum{exported_job="$job"}[$__rate_interval]))'
                ' / sum(rate(flamestream_job_snapshot_seconds_count{exported_job="$job"}[$__rate_interval]))',
                "mean",
            ),
        ),
        "From an epoch's announcement to its commit.",
    ),
    Panel(
        "Snapshot and memory", "bytes",
        ((of_job("snapshot_bytes"), "snapshot"), (of_job("memory_bytes"), "workers' memory")),
    ),
    Panel(
        "Lag", "s",
        (
            (of_job("minimal_time_lag_seconds"), "minimal time"),
            (of_job("event_time_lag_seconds", "source"), "{{source}}"),
        ),
    ),
    Panel(
        "In flight", "short",
        ((of_job("in_flight_items"), "items"), (of_job("waiting_requests", "call"), "requests of {{call}}")),
    ),
    Panel(
        "Replayed, invalidated, late", "ops",
        (
            (rate("job_replayed_items", "", exported_job="$job"), "items entered once more"),
            (rate("job_invalidated_results", "", exported_job="$job"), "results taken back"),
            (rate("job_late_items", "source", exported_job="$job"), "late, of {{source}}"),
        ),
    ),
    Panel("Skipped records", "short", ((of_job("skipped_records", "source"), "{{source}}"),), "Under at-most-once."),
    Panel(
        "Items by operation", "ops",
        ((most(rate("job_operation_items", "operation", exported_job="$job", direction="in")), "{{operation}}"),),
        "What comes along the edges to each vertex of the graph.",
    ),
    Panel(
        "Time by operation", "percentunit",
        ((most(of_job("operation_busy_ratio", "operation")), "{{operation}}"),),
        "Of one processor's second, with what stands behind the vertex up to the next door; by samples.",
    ),
    Panel(
        "Keys by operation", "short", ((most(of_job("operation_keys", "operation")), "{{operation}}"),),
        "Of the state that snapshots have.",
    ),
    Panel("State by operation", "bytes", ((most(of_job("operation_state_bytes", "operation")), "{{operation}}"),)),
    Panel(
        "Transactions", "ops",
        (
            (rate("job_transactions", "", exported_job="$job"), "decided"),
            (rate("job_transaction_decisions", "", exported_job="$job"), "the same, and each time decided again"),
            (rate("job_aborted_transactions", "", exported_job="$job"), "aborted"),
        ),
        "Rows that many want have transactions decided again.",
    ),
    Panel("Spans of traces", "ops", ((rate("job_spans", "outcome", exported_job="$job"), "{{outcome}}"),)),
)  # fmt: skip


def panel(number: int, of: Panel) -> dict[str, Any]:
    """A panel in its place of the grid."""
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": of.title,
        "description": of.text,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": of.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for place, (expr, legend) in enumerate(of.queries)
        ],
    }


def dashboard(uid: str, title: str, panels: tuple[Panel, ...], one: bool) -> dict[str, Any]:
    """A whole one; `one`: of a job that is chosen, with its recoveries marked in every panel."""
    variables = [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
    marks = []
    if one:
        ask = "label_values(flamestream_job_attempt, exported_job)"
        variables.append(
            {"name": "job", "label": "Job", "type": "query", "datasource": SOURCE, "query": ask, "refresh": 2}  # type: ignore[dict-item]  # as Grafana has it
        )
        expr = 'sum by (cause) (increase(flamestream_job_recoveries_total{exported_job="$job"}[$__interval])) > 0'
        marks.append(
            {"name": "Recoveries", "enable": True, "iconColor": "red", "datasource": SOURCE, "expr": expr,
             "titleFormat": "{{cause}}", "step": "15s"}
        )  # fmt: skip
    return {
        "uid": uid,
        "title": title,
        "tags": ["flamestream"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": variables},
        "annotations": {"list": marks},
        "panels": [panel(number, each) for number, each in enumerate(panels)],
    }


DASHBOARDS: Final = {
    "fleet.json": dashboard("flamestream-fleet", "FlameStream: all jobs", FLEET, one=False),
    "job.json": dashboard("flamestream-job", "FlameStream: a job", ONE, one=True),
}


def text(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(DASHBOARDS[name], indent=1) + "\n"


if __name__ == "__main__":
    for file in DASHBOARDS:
        (FOLDER / file).write_text(text(file))
