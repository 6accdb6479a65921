"""Every metric and every field of a job's status, beside what this test knows from elsewhere, through the
life of two jobs.

Each figure must be looked at somewhere in these lives: a new metric, or a new field of the status, that no
line names is red.
"""

import asyncio
from itertools import pairwise

import pytest
from prometheus_client import REGISTRY

from flamestream.job.moments import moment
from flamestream_operator import metrics
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.kube.lease import Leadership
from flamestream_operator.kube.queue import WorkQueue
from support.operator.figures import Looked, paths
from support.operator.journalled_life import (
    Input,
    compared,
    killed,
    led_by_another,
    rolled_back,
    saved_and_suspended,
    started,
)
from support.operator.plain_cluster import Places, PlainCluster, play
from support.operator.real_cluster import the_api


def test_a_journalled_job_from_its_start_to_a_suspension(places: Places) -> None:
    source, looked = Input(places.folder / "in"), Looked()

    async def life(cluster: PlainCluster) -> None:
        begun = await started(cluster, source, looked)
        await killed(cluster, source, looked)
        await led_by_another(cluster, source, looked)
        await saved_and_suspended(cluster, source, looked)
        await compared(cluster, source, looked)
        await rolled_back(cluster, source, looked)
        looked.field(cluster, "started_at", begun)

    play(the_api, places, life)
    ALL.append(looked)


def test_a_finite_job_to_its_end(places: Places) -> None:
    looked = Looked()

    async def life(cluster: PlainCluster) -> None:
        await cluster.apply(sources={"numbers": {"generator": {"count": 400, "rate": 200}}})
        await cluster.until(lambda: cluster.status.phase == "Completed", "it completes")
        looked.field(cluster, "finished_at", lambda end: moment(end) >= moment(cluster.status.started_at))
        looked.field(cluster, "run.cause", "Completed")
        looked.field(cluster, "items.input", 400)
        looked.field(cluster, "items.output", 400)
        assert len(cluster.delivered()) == 400
        await cluster.api.delete("FlameStreamJob", cluster.namespace, cluster.name)
        await cluster.until(lambda: cluster.job is None, "it is gone", may_fail=True)
        await cluster.jobs.reconcile((cluster.namespace, cluster.name))
        left = [
            sample
            for family in REGISTRY.collect()
            for sample in family.samples
            if cluster.namespace in sample.labels.get("job", "")
        ]
        assert left == [], "a job that is gone has no figures"

    play(the_api, places, life)
    ALL.append(looked)


def test_the_operator_s_own(places: Places) -> None:
    def value(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"flamestream_operator_{name}", labels) or 0.0

    before = {
        "conflicts": value("api_conflicts_total"),
        "asked": value("api_requests_total", verb="list", kind="Lease"),
        "errors": value("reconcile_errors_total", kind="thing"),
        "acted": value("actions_total", action="SetFinalizer"),
    }  # fmt: skip
    tries: list[str] = []

    async def work(key: str) -> None:
        tries.append(key)
        assert value("queue_depth") == 0
        if len(tries) == 1:
            raise ValueError("the first time")

    async def life(cluster: PlainCluster) -> None:
        await Leadership(cluster.api, cluster.namespace, "lease", "me", 30.0, lambda _: None).acquire()
        assert (value("leader"), value("shards")) == (1, 1)
        assert value("api_requests_total", verb="list", kind="Lease") > before["asked"]
        await _in_conflict(cluster)
        assert value("api_conflicts_total") == before["conflicts"] + 1
        assert value("actions_total", action="SetFinalizer") == before["acted"] + 2, "once in vain"
        queue = WorkQueue(work, "thing")
        queue.add("a")
        assert value("queue_depth") == 1
        serving = asyncio.create_task(queue.run())
        while len(tries) < 2:
            await asyncio.sleep(0.01)
        serving.cancel()
        assert value("reconcile_errors_total", kind="thing") == before["errors"] + 1
        assert value("reconcile_seconds_count", kind="thing") >= 1
        assert value("queue_seconds_count") >= 2
        metrics.count_phases(["Running", "Running"])
        assert value("jobs", phase="Running") == 2
        metrics.count_phases([])

    play(the_api, places, life)


async def _in_conflict(cluster: PlainCluster) -> None:
    """A reconciler that has an old copy writes its status."""
    await cluster.apply()
    namespace = cluster.namespace
    cluster.cluster.jobs.replace_all(await cluster.api.list_all("FlameStreamJob", namespace), namespace)
    await cluster.edit({"workers": {"standby": 1}})
    await cluster.jobs.reconcile((namespace, cluster.name))
    await cluster.look()


ALL: list[Looked] = []
OPERATORS = {
    "api_requests",
    "api_conflicts",
    "reconcile_seconds",
    "reconcile_errors",
    "queue_depth",
    "queue_seconds",
    "actions",
    "leader",
    "shards",
    "jobs",
}
"""What the test before this compares."""


ELSEWHERE = {
    "flamestream_job_event_time_lag_seconds", "flamestream_job_late_items", "flamestream_job_waiting_requests",
    "flamestream_job_skipped_records", "flamestream_job_audit_clean", "flamestream_job_spans",
}  # fmt: skip
"""Of sources with event time, of calls, of at-most-once, of drills and of traces, which these lives do not have:
tests/unit/operator/test_metrics.py and drills/test_verdicts.py look at them."""


OF_TWO_JOBS = {"identity", "handed_over"}
"""Of jobs that go on with another one: tests/unit/operator/jobs/test_take_over.py looks at them."""


def test_nothing_was_forgotten() -> None:
    if len(ALL) < 2:
        pytest.skip("only behind the lives above, in one process")
    families = {family.name for family in REGISTRY.collect() if family.name.startswith("flamestream_")}
    looked = {f"flamestream_job_{name}" for life in ALL for name in life.metrics} | {
        f"flamestream_operator_{name}" for name in OPERATORS
    }
    assert looked | ELSEWHERE == families
    assert set().union(*(life.fields for life in ALL)) >= set(paths(JobResourceStatus)) - OF_TWO_JOBS
    assert all(one != other for one, other in pairwise(sorted(families)))
