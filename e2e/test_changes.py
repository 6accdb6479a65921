"""What a user does on purpose: suspend and resume, a savepoint and a new job from it, edits, mistakes, deletion."""

from collections.abc import Callable

import pytest

from e2e.support.kube import KubectlError, until
from e2e.support.stream import Stream

Report = Callable[..., None]
pytestmark = pytest.mark.ci


def test_suspend_stops_at_an_epoch_and_resume_goes_on(stream: Stream, report: Report) -> None:
    stream.apply(suspend=True)
    stream.kube.run("wait", "--for=condition=Suspended", f"flamestreamjob/{stream.name}", "--timeout=120s", within=150)
    status = stream.status()
    assert status["epoch"]["number"] > 0
    until("its pods are gone", lambda: not stream.workers() and not stream.drivers(), 60, 0.5)
    stream.apply(suspend=False)
    stream.wait_ready(180)
    stream.wait_flowing(60)
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict


def test_a_changed_interval_restarts_nothing(stream: Stream) -> None:
    before = {pod["metadata"]["uid"] for pod in stream.workers()}
    store = stream.manifest()["spec"]["checkpoint"]
    stream.apply(checkpoint={**store, "interval": "2s"})
    generation = lambda: (stream.kube.get("flamestreamjob", stream.name) or {})["metadata"]["generation"]  # noqa: E731
    until("it is observed", lambda: stream.status().get("observedGeneration") == generation(), 30)
    stream.wait_ready(60)
    stream.wait_flowing()
    assert {pod["metadata"]["uid"] for pod in stream.workers()} == before


def test_a_mistake_is_refused_by_name(stream: Stream) -> None:
    wrong = stream.manifest(workers={"replicas": 0})
    with pytest.raises(KubectlError, match="replicas"):
        stream.kube.apply(wrong)


def test_deletion_leaves_nothing(stream: Stream) -> None:
    stream.kube.run("delete", "flamestreamjob", stream.name, "--timeout=90s")
    selector = f"flamestream.dev/job={stream.name}"
    kinds = "pods,secrets,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies"
    until("nothing of it is left", lambda: not stream.kube.list(kinds, selector), 60, 0.5)
