"""Figures that no fault is needed for: latency outside the job, at 50 documents a second, from a minute after
Ready on."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.conftest import fresh
from e2e.support.installation import READER, Installation
from e2e.support.kube import Kube, until
from e2e.support.stream import INTERVALS, Stream

PER_SECOND = 50
SETTLES, TAKES, IDLE = 60, 30, 240
"""Seconds."""


@contextmanager
def running(stream: Stream) -> Iterator[Stream]:
    """Alone: another's outside would take its place, and its pods a part of the processors."""
    stream.prepare()
    stream.apply()
    stream.wait_ready()
    yield stream
    stream.delete()


def test_latency_with_the_journal_in_zookeeper(
    installation: Installation, kube: Kube, report: Callable[..., None]
) -> None:
    """Of long documents, and the journal where docs/operations/kubernetes.md wants it."""
    with running(
        Stream(kube, installation, fresh(), standby=0, extra={"journal": {"folder": "zookeeper://"}})
    ) as stream:
        report(f"latency, {stream.words} words, journal in ZooKeeper", **_latency(stream))


@pytest.fixture(scope="module")
def quick(installation: Installation, kube: Kube) -> Iterator[Stream]:
    with running(Stream(kube, installation, standby=0, words=60, name=fresh())) as stream:
        yield stream


@pytest.mark.parametrize("interval", INTERVALS)
def test_latency_outside_and_as_the_status_has_it(
    quick: Stream, interval: str, report: Callable[..., None]
) -> None:
    quick.interval = interval
    quick.apply()
    report(f"latency, epochs every {interval}", **_latency(quick))
    assert quick.status()["attempt"] == 1, "an edited interval restarts nothing"


def _latency(stream: Stream) -> dict[str, Any]:
    before = stream.state()["sent"]
    stream.send(PER_SECOND, PER_SECOND * (SETTLES + TAKES))
    time.sleep(SETTLES)  # the figure is of a stream that has run so long
    first = stream.state()["sent"]
    time.sleep(TAKES)  # nobody asks meanwhile: an answer takes a processor from the job
    until("all documents are sent", lambda: (s := stream.state())["sent"] >= s["wanted"], TAKES + 60, 1)
    verdict = stream.wait_through()
    assert verdict["complete"] and verdict["clean"], verdict
    found = stream.ask(f"/latency?first={first}&last={before + PER_SECOND * (SETTLES + TAKES)}")
    assert found["documents"] > 0 and found["p50"] <= found["p99"]
    return {"per_second": PER_SECOND, **found, "status": stream.status().get("latency")}


def test_what_an_idle_job_costs(quick: Stream, report: Callable[..., None]) -> None:
    """No documents for some minutes: what the API server is asked for on account of the job, and the
    operator's memory."""
    time.sleep(30)  # what follows from the last documents is through
    pods = operators(quick)
    before = requests(quick, pods)
    time.sleep(IDLE)
    asked = {
        what: count - before.get(what, 0)
        for what, count in requests(quick, pods).items()
        if count > before.get(what, 0)
    }
    memory = {pod: round(figure(quick, pod, "process_resident_memory_bytes") / 1e6) for pod in pods}
    per_hour = round(sum(asked.values()) * 3600 / IDLE)
    report("idle job", requests_per_hour=per_hour, asked=asked, seconds=IDLE, operator_mb=memory)
    assert per_hour <= 120, asked


def operators(stream: Stream) -> list[str]:
    pods = stream.installation.system.list("Pod", "app.kubernetes.io/component=operator")
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


SCRAPE = """
import sys, urllib.request
headers = {"Authorization": f"Bearer {sys.stdin.readline().strip()}"}
request = urllib.request.Request("http://127.0.0.1:8080/metrics", headers=headers)
sys.stdout.write(urllib.request.urlopen(request, timeout=10).read().decode())
"""


def metrics_of(stream: Stream, pod: str) -> list[str]:
    """With the token of an account that the chart's metrics.readers names: the API server's proxy would take
    the token out."""
    system = stream.installation.system
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    given = json.loads(
        system.raw(f"/api/v1/namespaces/{system.namespace}/serviceaccounts/{READER}/token", asked)
    )
    return system.execute(pod, "python3", "-c", SCRAPE, stdin=given["status"]["token"]).splitlines()


def figure(stream: Stream, pod: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in metrics_of(stream, pod) if line.startswith(name))


def requests(stream: Stream, pods: list[str]) -> dict[str, float]:
    """By whom and what for: the operator's as it counts them, the Lease apart; Spark's from the API server,
    which knows no askers: who lists or watches the pods of one namespace is a driver, or this operator's
    watch, which ends every ten minutes."""
    found: dict[str, float] = {}
    for pod in pods:
        for line in metrics_of(stream, pod):
            if line.startswith("flamestream_operator_api_requests_total{") and 'kind="Lease"' not in line:
                labels, _, count = line.partition("{")[2].rpartition(" ")
                found[f"operator {labels.rstrip('}')}"] = found.get(
                    f"operator {labels.rstrip('}')}", 0
                ) + float(count)
    for line in stream.kube.raw("/metrics").splitlines():
        if (
            line.startswith("apiserver_request_total{")
            and 'resource="pods"' in line
            and 'scope="namespace"' in line
        ):
            verb = line.partition('verb="')[2].partition('"')[0]
            if verb in ("LIST", "WATCH"):
                found[f"{verb} pods"] = found.get(f"{verb} pods", 0) + float(line.rpartition(" ")[2])
    return found
