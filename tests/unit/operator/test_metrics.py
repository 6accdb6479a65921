"""The operator's metrics follow Prometheus' conventions, and a job that is gone has none."""

import re

import msgspec
import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from flamestream.core.protocol.latency import BOUNDS
from flamestream.job.status import JobStatus, LastRecovery, LatencyFigures, OperationFigures, WorkerFigures
from flamestream.model.event_time import END_OF_TIME
from flamestream.model.ids import SourceName
from flamestream_operator import metrics


def ours() -> list[str]:
    return [line for line in generate_latest().decode().splitlines() if line.startswith("flamestream_")]


def test_names_and_help_are_as_prometheus_asks() -> None:
    for family in REGISTRY.collect():
        if family.name.startswith("flamestream_"):
            assert family.documentation.endswith(".")
            assert not family.name.endswith(
                ("_total", "_count", "_sum", "_bucket", "_ms", "_milliseconds")
            ), family.name
            assert family.type in ("counter", "gauge", "histogram", "summary")


def test_a_job_that_is_gone_leaves_no_figure() -> None:
    status = JobStatus(
        job="n.j",
        pid=1,
        updated=0,
        phase="running",
        attempt=2,
        workers=[WorkerFigures(worker="w", connected=True, items_in=3)],
    )
    metrics.observe("n.j", status, 1.0)
    metrics.epochs.labels("n.j").inc()
    assert 'flamestream_job_items_total{direction="in",job="n.j"} 3.0' in ours()
    metrics.forget("n.j")
    assert [line for line in ours() if "n.j" in line] == []


def test_jobs_are_counted_by_phase() -> None:
    metrics.count_phases(["Running", "Running", "Failed"])
    assert 'flamestream_operator_jobs{phase="Running"} 2.0' in ours()
    metrics.count_phases([])
    assert [line for line in ours() if line.startswith("flamestream_operator_jobs{")] == []


def told(recoveries: int = 0) -> JobStatus:
    """With every figure that there is."""
    classes = [0] * (len(BOUNDS) + 1)
    classes[2] = 5
    return JobStatus(
        job="n.all",
        pid=1,
        updated=9_000_000,
        phase="running",
        attempt=2,
        epoch=3,
        snapshot_size=100,
        recoveries=recoveries,
        workers=[
            WorkerFigures(
                worker="w",
                connected=True,
                items_in=3,
                minimal=8_000_000,
                runs=2,
                bundles=5,
                in_flight=1,
                waiting={SourceName("priced()"): 3},
                memory=1 << 20,
                replayed=2,
                latencies=classes,
                latencies_us=15_000,
                releases=[*classes[1:], 0],
                releases_us=10_000,
            ),
            WorkerFigures(
                worker="x",
                connected=True,
                runs=1,
                bundles=4,
                in_flight=3,
                waiting={SourceName("priced()"): 4},
                memory=1 << 20,
                minimal=8_000_000,
                invalidated=6,
            ),
        ],
        standbys=["s"],
        last_recovery=LastRecovery(
            cause="lost w0", duration_ms=120.0, kind="lost", steps_ms={"decide": 3, "record": 10}
        ),
        latency=LatencyFigures(p50_ms=3, p99_ms=3, calls=5),
        release=LatencyFigures(p50_ms=2, p99_ms=2, calls=5),
        snapshots=4,
        snapshots_ms=200,
    )


def with_operations(worker: str, items_in: int, *names: str) -> JobStatus:
    """A job with one worker, through each of whose operations so many items have come."""
    figures = WorkerFigures(
        worker=worker, connected=True, operations=[(name, items_in, 2 * items_in) for name in names]
    )
    newest = [OperationFigures(operation=name, busy=0.25, keys=7, state_bytes=90) for name in names]
    return JobStatus(
        job="n.o", pid=1, updated=0, phase="running", workers=[figures], operations=newest if items_in else []
    )


def test_items_of_an_operation_only_grow_whoever_works_on_it() -> None:
    """A worker that is lost has counted what its successor does not count again."""
    for status in (
        with_operations("w0.1", 5, "0 in", "1 map"), with_operations("w0.1", 8, "0 in", "1 map"),
        with_operations("w0.1", 0), with_operations("w0.1", 8, "0 in", "1 map"),
        with_operations("w0.2", 3, "0 in", "1 map"),
    ):  # fmt: skip
        metrics.observe("n.o", status, 1.0)
    head, labels = "flamestream_job_operation_", 'job="n.o",operation="1 map"'
    assert f'{head}items_total{{direction="in",{labels}}} 11.0' in ours()
    assert f'{head}items_total{{direction="out",{labels}}} 22.0' in ours()
    for name, value in (("busy_ratio", 0.25), ("keys", 7.0), ("state_bytes", 90.0)):
        assert f"{head}{name}{{{labels}}} {value}" in ours()
    metrics.forget("n.o")


def test_operations_that_other_code_does_not_have_leave_no_series() -> None:
    metrics.observe("n.o", with_operations("w0.1", 5, "0 in", "1 map"), 1.0)
    metrics.observe("n.o", with_operations("w0.2", 5, "0 in", "1 filter"), 1.0)
    assert [line for line in ours() if "1 map" in line] == []
    metrics.forget("n.o")
    assert [line for line in ours() if "n.o" in line] == []


def test_recoveries_are_counted_by_cause_and_timed_by_step() -> None:
    last = told().last_recovery
    assert last is not None
    metrics.recovered("n.all", last, 2)
    assert 'flamestream_job_recoveries_total{cause="lost",job="n.all"} 2.0' in ours()
    assert 'flamestream_job_recovery_step_seconds_sum{job="n.all",step="record"} 0.01' in ours()
    metrics.replay_ended("n.all", msgspec.structs.replace(last, steps_ms={**last.steps_ms, "replay": 20}))
    assert 'flamestream_job_recovery_step_seconds_count{job="n.all",step="record"} 1.0' in ours()
    assert 'flamestream_job_recovery_step_seconds_sum{job="n.all",step="replay"} 0.02' in ours()
    metrics.forget("n.all")


def test_requests_without_an_answer_are_those_of_all_workers() -> None:
    metrics.observe("n.all", told(), 0.0)
    assert 'flamestream_job_waiting_requests{call="priced()",job="n.all"} 7.0' in ours()
    metrics.forget("n.all")


def test_busy_workers_are_told_by_their_mean_and_by_the_busiest() -> None:
    busy = [
        msgspec.structs.replace(told().workers[0], worker=name, busy=share)
        for name, share in (("w", 0.5), ("x", 0.9))
    ]
    metrics.observe("n.all", msgspec.structs.replace(told(), workers=busy), 0.0)
    assert REGISTRY.get_sample_value("flamestream_job_busy_ratio", {"job": "n.all", "workers": "mean"}) == 0.7
    assert REGISTRY.get_sample_value("flamestream_job_busy_ratio", {"job": "n.all", "workers": "most"}) == 0.9
    metrics.forget("n.all")


def test_spans_are_counted_by_what_became_of_them() -> None:
    for exported, dropped in ((5, 1), (0, 0), (9, 1)):  # in between it has not said it yet, after a recovery
        traced = msgspec.structs.replace(told().workers[0], spans=exported, spans_dropped=dropped)
        metrics.observe("n.all", msgspec.structs.replace(told(), workers=[traced]), 0.0)
    for outcome, count in (("exported", 9), ("dropped", 1)):
        labels = {"job": "n.all", "outcome": outcome}
        assert REGISTRY.get_sample_value("flamestream_job_spans_total", labels) == count
    metrics.forget("n.all")


def test_output_has_an_age_once_there_was_some() -> None:
    metrics.observe("n.all", told(), 0.0)
    assert REGISTRY.get_sample_value("flamestream_job_output_age_seconds", {"job": "n.all"}) is None
    metrics.observe("n.all", msgspec.structs.replace(told(), last_output=6_500_000), 0.0)
    assert REGISTRY.get_sample_value("flamestream_job_output_age_seconds", {"job": "n.all"}) == 2.5
    metrics.forget("n.all")


def test_conditions_are_figures_and_those_of_another_version_are_none() -> None:
    said = [("Ready", "True"), ("Recovering", "Unknown"), ("Shiny", "True")]
    metrics.stated("n.all", [{"type": kind, "status": status} for kind, status in said])
    assert [line for line in ours() if line.startswith("flamestream_job_condition{")] == [
        'flamestream_job_condition{condition="Ready",job="n.all"} 1.0',
        'flamestream_job_condition{condition="Recovering",job="n.all"} 0.0',
    ]
    metrics.forget("n.all")


def test_event_time_lags_by_source_until_its_input_has_ended() -> None:
    status = msgspec.structs.replace(
        told(), event_times={"clicks": 7_000_000, "views": None, "orders": END_OF_TIME}
    )
    metrics.observe("n.all", status, 1.0)
    lags = [line for line in ours() if line.startswith('flamestream_job_event_time_lag_seconds{job="n.all"')]
    assert lags == ['flamestream_job_event_time_lag_seconds{job="n.all",source="clicks"} 2.0']
    metrics.forget("n.all")


def test_late_items_are_counted_by_source_and_never_go_back() -> None:
    worker, other = (
        WorkerFigures(worker=name, connected=True, late={SourceName("clicks"): 3}) for name in ("w", "x")
    )
    later = msgspec.structs.replace(worker, late={"clicks": 5, "views": 1})
    less = msgspec.structs.replace(worker, late={"clicks": 4, "views": 1})
    for workers in ([worker, other], [later, other], [less, other]):
        metrics.observe("n.all", msgspec.structs.replace(told(), workers=workers), 1.0)
    found = [line for line in ours() if line.startswith('flamestream_job_late_items_total{job="n.all"')]
    assert found == [
        'flamestream_job_late_items_total{job="n.all",source="clicks"} 8.0',
        'flamestream_job_late_items_total{job="n.all",source="views"} 1.0',
    ]
    metrics.forget("n.all")


def test_latencies_are_a_histogram_of_the_workers_own_counts() -> None:
    metrics.observe("n.all", told(), 1.0)
    lines = ours()
    assert 'flamestream_job_latency_seconds_bucket{job="n.all",le="0.002"} 0.0' in lines
    assert 'flamestream_job_latency_seconds_bucket{job="n.all",le="0.003"} 5.0' in lines
    assert 'flamestream_job_latency_seconds_count{job="n.all"} 5.0' in lines
    assert 'flamestream_job_latency_seconds_sum{job="n.all"} 0.015' in lines
    assert 'flamestream_job_release_latency_seconds_bucket{job="n.all",le="0.002"} 5.0' in lines
    assert 'flamestream_job_release_latency_seconds_sum{job="n.all"} 0.01' in lines
    metrics.forget("n.all")


def test_snapshots_are_counted_and_timed() -> None:
    metrics.observe("n.all", told(), 1.0)
    lines = ours()
    assert 'flamestream_job_snapshot_seconds_count{job="n.all"} 4.0' in lines
    assert 'flamestream_job_snapshot_seconds_sum{job="n.all"} 0.2' in lines
    metrics.forget("n.all")


def test_what_the_workers_count_is_summed_up() -> None:
    metrics.observe("n.all", told(), 1.0)
    figures = {
        "runs_total": 3,
        "acknowledged_bundles_total": 9,
        "in_flight_items": 4,
        "memory_bytes": 2 << 20,
        "replayed_items_total": 2,
        "invalidated_results_total": 6,
    }
    for name, value in figures.items():
        assert REGISTRY.get_sample_value(f"flamestream_job_{name}", {"job": "n.all"}) == value
    metrics.forget("n.all")


def test_a_worker_that_is_gone_or_connects_again_takes_nothing_back_and_counts_nothing_twice() -> None:
    first = told()
    metrics.observe("n.all", first, 1.0)
    fresh = msgspec.structs.replace(first.workers[0], worker="y", runs=7, replayed=0)
    unsaid = WorkerFigures(worker="x", connected=True)
    for workers in ([unsaid, fresh], [first.workers[1], fresh]):
        metrics.observe("n.all", msgspec.structs.replace(first, workers=workers), 1.0)
    assert REGISTRY.get_sample_value("flamestream_job_runs_total", {"job": "n.all"}) == 2 + 1 + 7
    assert (
        REGISTRY.get_sample_value("flamestream_job_acknowledged_bundles_total", {"job": "n.all"}) == 5 + 4 + 5
    )
    assert REGISTRY.get_sample_value("flamestream_job_latency_seconds_count", {"job": "n.all"}) == 10
    metrics.forget("n.all")


def test_another_coordinator_counts_on() -> None:
    for began, snapshots in ((1, 4), (1, 5), (9, 2), (9, 3)):
        metrics.observe(
            "n.all",
            msgspec.structs.replace(told(), began=began, snapshots=snapshots, snapshots_ms=50 * snapshots),
            1.0,
        )
    assert REGISTRY.get_sample_value("flamestream_job_snapshot_seconds_count", {"job": "n.all"}) == 8
    assert REGISTRY.get_sample_value("flamestream_job_snapshot_seconds_sum", {"job": "n.all"}) == 0.4
    metrics.forget("n.all")


def test_the_exposition_is_what_prometheus_reads() -> None:
    """The rules of `promtool check metrics`: help, one type, base units, names and labels as asked, counters
    end in _total."""
    metrics.observe("n.all", told(), 1.0)
    families = list(text_string_to_metric_families(generate_latest().decode()))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.type != "unknown" and family.documentation, family.name
        for sample in family.samples:
            assert not {"le", "quantile"} & set(sample.labels) or family.type in ("histogram", "summary"), (
                sample
            )
            if family.name.startswith("flamestream_"):
                assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", sample.name), "snake case"
                assert all(re.fullmatch(r"[a-z]+", label) for label in sample.labels), sample
                assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
                assert not re.search(r"_(ms|milliseconds|us|minutes|kb|mb|kilobytes)(_|$)", sample.name), (
                    "base units"
                )
                assert not re.search(r"counter|gauge|histogram|summary", sample.name), "no type in the name"
    metrics.forget("n.all")


@pytest.mark.parametrize(
    "user", ["flamestream_job_epoch", "up", 'a"} 9\nup{b="', "with\\back", "job", "\u00e9"]
)
def test_a_users_name_is_a_label_and_collides_with_no_figure(user: str) -> None:
    metrics.observe("n.all", told(), 1.0)
    before = {family.name for family in text_string_to_metric_families(generate_latest().decode())}
    metrics.observe("n.all", msgspec.structs.replace(told(), skipped={SourceName(user): 7}), 1.0)
    metrics.observe(f"n.{user}", with_operations("w", 5, f"0 {user}", f"1 {user}"), 1.0)
    families = {family.name: family for family in text_string_to_metric_families(generate_latest().decode())}
    assert families.keys() == before
    skipped = [each for each in families["flamestream_job_skipped_records"].samples if each.value == 7]
    assert [each.labels for each in skipped] == [{"job": "n.all", "source": user}]
    keys = [each.labels for each in families["flamestream_job_operation_keys"].samples]
    assert keys == [{"job": f"n.{user}", "operation": f"{place} {user}"} for place in (0, 1)]
    for job in ("n.all", f"n.{user}"):
        metrics.forget(job)


def test_skipped_records_are_told_by_source_since_the_job_began() -> None:
    for count in (0, 7):
        metrics.observe("n.all", msgspec.structs.replace(told(), skipped={SourceName("clicks"): count}), 1.0)
    found = [line for line in ours() if line.startswith('flamestream_job_skipped_records{job="n.all"')]
    assert found == ['flamestream_job_skipped_records{job="n.all",source="clicks"} 7.0']
    metrics.forget("n.all")
