"""What a user does on purpose: suspend and resume, a savepoint and a new job from it, edits, mistakes,
deletion."""

from collections.abc import Callable

import pytest

from e2e.support.job import is_running
from e2e.support.kube import ApiException
from e2e.support.stream import Stream

Report = Callable[..., None]
pytestmark = pytest.mark.ci


def test_suspend_stops_at_an_epoch_and_resume_goes_on(stream: Stream, report: Report) -> None:
    stream.apply(suspend=True)
    stream.wait_condition("Suspended")
    status = stream.status()
    assert status["epoch"]["number"] > 0
    stream.kube.watch(
        "Pod", lambda there: not any(map(is_running, there.values())), 60, selector=stream.selector()
    )
    stream.apply(suspend=False)
    stream.wait_ready(180)
    stream.wait_flowing(60)
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict


def test_a_changed_interval_restarts_nothing(stream: Stream) -> None:
    before = {pod["metadata"]["uid"] for pod in stream.workers()}
    store = stream.manifest()["spec"]["checkpoint"]
    stream.apply_and_wait(checkpoint={**store, "interval": "2s"})
    stream.wait_flowing()
    assert {pod["metadata"]["uid"] for pod in stream.workers()} == before


def test_a_mistake_is_refused_by_name(stream: Stream) -> None:
    wrong = stream.manifest(workers={"replicas": 0})
    with pytest.raises(ApiException, match="replicas"):
        stream.kube.apply(wrong)


def test_deletion_leaves_nothing(stream: Stream) -> None:
    stream.kube.delete("FlameStreamJob", stream.name)
    for kind in (
        "Pod",
        "Secret",
        "Service",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "PodDisruptionBudget",
        "NetworkPolicy",
    ):
        stream.kube.watch(kind, lambda there: not there, 60, selector=stream.selector())
