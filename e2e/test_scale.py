"""The number of workers is changed from beside the manifest, by `kubectl scale`, by a real HorizontalPodAutoscaler and
by KEDA: all go through the scale subresource. One autoscaler has no metrics, and still keeps to its least number; the
other, and KEDA, follow the operator's own, by the chart's examples. And the number of leaders is changed, by helm."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
import yaml
from prometheus_client import start_http_server

from e2e.conftest import flowing, fresh
from e2e.support.controllers import KEDA_IMAGE, keda
from e2e.support.external_metrics import SCALING, host, leads, metrics_api
from e2e.support.installation import Installation, install
from e2e.support.kube import Kube, Object, kubectl, until
from e2e.support.shards import in_each_shard, is_coordinated, led_by_two
from e2e.support.stream import Stream
from e2e.test_faults import broken
from e2e.test_planned import generation_of, rolled
from flamestream.job.status import JobStatus, WorkerFigures
from flamestream_operator import metrics
from support.operator.prometheus import Prometheus, prometheus
from support.ports import free_port

Report = Callable[..., None]


@pytest.fixture(scope="module")
def scaled(installation: Installation, kube: Kube) -> Iterator[Stream]:
    """One worker, and no spare."""
    with flowing(Stream(kube, installation, words=60, replicas=1, standby=0, name=fresh())) as made:
        yield made
        kube.delete("HorizontalPodAutoscaler", made.name)


def becomes(stream: Stream, replicas: int, change: Callable[[], object]) -> None:
    """Make the change, and wait until so many workers carry the stream and the scale subresource says so."""
    before = generation_of(stream)
    stream.replicas = replicas
    change()
    rolled(stream, before)
    path = f"/apis/flamestream.dev/v1alpha1/namespaces/{stream.kube.namespace}/flamestreamjobs/{stream.name}/scale"

    def says_so() -> bool:
        told = json.loads(stream.kube.raw(path))
        return bool({told[part]["replicas"] for part in ("spec", "status")} == {replicas})

    until("the scale subresource says so", says_so, 60)


def test_an_autoscaler_adds_a_worker_and_costs_no_item(scaled: Stream, report: Report) -> None:
    target = {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "name": scaled.name}
    resource = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    autoscaler = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": scaled.name},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2, "metrics": [resource]},
    }  # fmt: skip
    broken(
        scaled,
        report,
        "autoscaled from 1 worker to 2",
        lambda: becomes(scaled, 2, lambda: scaled.kube.apply(autoscaler)),
    )


def test_scaling_down_by_hand_costs_no_item(scaled: Stream, report: Report) -> None:
    scaled.kube.delete("HorizontalPodAutoscaler", scaled.name)
    by_hand = ("scale", f"flamestreamjob/{scaled.name}", "--replicas=1", "--namespace", scaled.kube.namespace)
    broken(
        scaled, report, "scaled from 2 workers to 1", lambda: becomes(scaled, 1, lambda: kubectl(*by_hand))
    )


@pytest.fixture
def measured(scaled: Stream) -> Iterator[Prometheus]:
    """A real Prometheus that has what an operator says of the stream's job."""
    port = free_port()
    server, thread = start_http_server(port)
    try:
        with prometheus(port, "none", host(scaled.kube)) as asked:
            yield asked
    finally:
        metrics.forget(identity(scaled))
        server.shutdown()
        server.server_close()
        thread.join()


def identity(stream: Stream) -> str:
    """Its job, as figures name it."""
    return f"{stream.kube.namespace}.{stream.name}"


def test_an_autoscaler_follows_how_busy_the_workers_are_and_costs_no_item(
    scaled: Stream, measured: Prometheus, report: Report
) -> None:
    """The chart's example, and its rule for the cluster's metrics API."""
    example = example_of("hpa.yaml", scaled)
    example["spec"]["behavior"] = AT_ONCE
    with metrics_api(scaled.kube, measured):
        follows_its_metric(scaled, example, "autoscaled", report)


@pytest.mark.skipif(not KEDA_IMAGE, reason="E2E_KEDA_IMAGE does not name an image of KEDA")
def test_keda_follows_how_busy_the_workers_are_and_costs_no_item(
    scaled: Stream, measured: Prometheus, report: Report
) -> None:
    """The chart's example, but for its Kafka."""
    scaled.kube.delete("HorizontalPodAutoscaler", scaled.name)
    example = example_of("keda.yaml", scaled)
    example["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] = AT_ONCE
    example["spec"]["triggers"] = [
        each for each in example["spec"]["triggers"] if each["type"] == "prometheus"
    ]
    monitoring = Kube("monitoring")
    monitoring.make_namespace()
    monitoring.apply(*leads(host(scaled.kube), measured.port, "prometheus", 9090))
    with keda():
        try:
            follows_its_metric(scaled, example, "scaled by KEDA", report)
        finally:
            scaled.kube.delete("ScaledObject", scaled.name)
    monitoring.unmake_namespace()


def follows_its_metric(stream: Stream, scaler: Object, how: str, report: Report) -> None:
    """From one worker to two and back: what they say of their time is made up, so that no load has to be met; all
    else is real."""

    def adds_one() -> None:
        reported(identity(stream), 0.95)
        stream.kube.apply(scaler)

    def takes_one_away() -> None:
        reported(identity(stream), 0.2, 0.2)

    try:
        broken(stream, report, f"{how} to 2 workers", lambda: becomes(stream, 2, adds_one))
        broken(stream, report, f"{how} to 1 worker", lambda: becomes(stream, 1, takes_one_away))
    except AssertionError as error:
        for each in stream.kube.list("HorizontalPodAutoscaler"):
            error.add_note(str(each.get("status")))
        raise


def reported(job: str, *shares: float) -> None:
    """What the job's workers say of their time."""
    workers = [WorkerFigures(worker=f"w{at}", connected=True, busy=share) for at, share in enumerate(shares)]
    metrics.observe(job, JobStatus(job=job, pid=1, updated=1, phase="running", workers=workers), 0.0)


AT_ONCE: Object = {"scaleDown": {"stabilizationWindowSeconds": 0}}
"""Workers are taken away without a wait."""


def example_of(file: str, stream: Stream) -> Object:
    """The chart's, for this job."""
    text = (SCALING / file).read_text()
    made: Object = yaml.safe_load(
        text.replace("default.inverted-index", identity(stream)).replace("inverted-index", stream.name)
    )
    return made


# --- leaders ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def divided(installation: Installation, kube: Kube) -> Iterator[list[Stream]]:
    """A small job in each shard of two, all led by one leader yet."""
    made = in_each_shard(kube, installation)
    with flowing(made[0], 240), flowing(made[1], 240):
        yield made
    install(kube.namespace)  # for the modules behind this one, which look at one leader


def watched(
    divided: list[Stream], report: Report, what: str, fault: Callable[[], None], seconds: float
) -> None:
    """Do it: no job recovers, what each has delivered is right, and its longest pause is told."""
    since, attempts = (
        [each.state()["now"] for each in divided],
        [each.status()["attempt"] for each in divided],
    )
    fault()
    time.sleep(seconds)
    for shard, (each, moment) in enumerate(zip(divided, since, strict=True)):
        each.wait_flowing(60)
        gap, verdict = each.ask(f"/gap?since={moment}"), each.ask("/audit")
        report(
            f"{what}: job of shard {shard}",
            gap_ms=gap["gap_ms"],
            clean=verdict["clean"],
            items=verdict["items"],
        )
        assert verdict["clean"], verdict
    assert [each.status()["attempt"] for each in divided] == attempts, "no job has recovered"
    for each in divided:
        is_coordinated(each)


def test_jobs_are_divided_among_two_leaders_while_they_run(
    divided: list[Stream], installation: Installation, kube: Kube, report: Report
) -> None:
    def divide() -> None:
        install(kube.namespace, shards=2)
        until("two lead", lambda: led_by_two(installation), 120)

    watched(divided, report, "jobs divided among two leaders", divide, 10)


def test_a_leader_that_dies_takes_only_its_own_shard_with_it(
    divided: list[Stream], installation: Installation, report: Report
) -> None:
    other, dies = (installation.leader(shard) for shard in (0, 1))

    def kill() -> None:
        installation.system.delete("Pod", dies, grace=0, within=0)
        until("a spare leads", lambda: installation.leader(1) not in ("", dies), 60)

    watched(divided, report, "leader of shard 1 deleted by force", kill, 10)
    assert installation.leader(0) == other
