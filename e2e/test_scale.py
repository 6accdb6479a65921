"""The number of workers is changed from beside the manifest, by `kubectl scale` and by a real
HorizontalPodAutoscaler: both go through the scale subresource. The autoscaler is one without metrics, which
still keeps to its least number: what it would measure is not ours."""

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import flowing, fresh
from e2e.support.installation import Installation
from e2e.support.kube import Kube, kubectl, until
from e2e.support.stream import Stream
from e2e.test_faults import broken
from e2e.test_planned import generation_of, rolled

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
