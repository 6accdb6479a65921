"""The operator's metrics follow Prometheus' conventions, and a job that is gone has none."""

from prometheus_client import REGISTRY, generate_latest

from flamestream.adapters.status_file import JobStatus, WorkerFigures
from flamestream_operator.shell import metrics


def ours() -> list[str]:
    return [line for line in generate_latest().decode().splitlines() if line.startswith("flamestream_")]


def test_names_and_help_are_as_prometheus_asks() -> None:
    for family in REGISTRY.collect():
        if family.name.startswith("flamestream_"):
            assert family.documentation.endswith(".")
            assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_ms", "_milliseconds")), family.name
            assert family.type in ("counter", "gauge", "histogram")


def test_a_job_that_is_gone_leaves_no_figure() -> None:
    status = JobStatus(
        job="n.j", pid=1, updated=0, phase="running", attempt=2, workers=[WorkerFigures(worker="w", connected=True, items_in=3)]
    )
    metrics.observe("n.j", status, 1.0)
    metrics.epochs.labels("n.j").inc()
    assert 'flamestream_job_items{direction="in",job="n.j"} 3.0' in ours()
    metrics.forget("n.j")
    assert [line for line in ours() if "n.j" in line] == []


def test_jobs_are_counted_by_phase() -> None:
    metrics.count_phases(["Running", "Running", "Failed"])
    assert 'flamestream_operator_jobs{phase="Running"} 2.0' in ours()
    metrics.count_phases([])
    assert [line for line in ours() if line.startswith("flamestream_operator_jobs{")] == []
