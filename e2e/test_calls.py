"""A job that calls a service, on a cluster: while everything that makes the calls is killed, the job is suspended
and edited, each order gets one price, and the service did what it was asked for once."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT, config_map, restricted_pod
from e2e.support.kube import Kube
from e2e.test_guarantees import edited, judged, struck

SERVICE = ROOT / "examples" / "after_lambda" / "service.py"
FAULTS = "late=0.02,never=0.01,twice=0.01,short=0.01,error=0.02,broken=0.01,other=0.01"
_PRICES = """
import http.client, threading
import msgspec
import flamestream as fs

connections = threading.local()

@fs.call(timeout="2s", retries=20, concurrency=16, fronts=2)
def priced(order: int, call: fs.Call) -> tuple[int, int]:
    connection = getattr(connections, "here", None)
    if connection is None:
        connection = connections.here = http.client.HTTPConnection("ADDRESS", 7003)
    try:
        connection.request("GET", f"/price/{order}", headers={"Idempotency-Key": call.id})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200 or reply.headers["Idempotency-Key"] != call.id:
            raise OSError(f"status {reply.status}, for {reply.headers['Idempotency-Key']}")
        return order, msgspec.json.decode(body, type=int)
    except BaseException:
        connection.close()
        raise

graph = fs.Graph("prices")
orders = graph.source("docs").map(lambda document: int(document.text))
orders.call(priced, key=lambda order: order % 50).sink("priced", key=lambda pair: pair[0])
orders.sink("index")
"""


def test_each_call_is_made_once_through_kills_a_suspension_and_an_edit(
    installation: Installation, kube: Kube, report: Callable[..., None]
) -> None:
    job = FolderJob(kube, installation, fresh(), form="{number}")
    service = f"{job.name}-asked"
    _serve(kube, service)
    _asks(job, service)
    job.start(per_second=20)
    for target in ("worker", "driver", "executor"):
        report(f"calls: {target} killed", **struck(job, target, "exactly-once"))
    job.typed("suspend", job.name)
    judged(job, "exactly-once")
    job.typed("resume", job.name, "--wait")
    edited(job, workers={"replicas": 3, "standby": 0})
    struck(job, "worker", "exactly-once")
    job.typed("suspend", job.name)
    found = judged(job, "exactly-once")
    prices = _delivered(job, "priced")
    assert not _delivered(job, "dead")
    assert len(prices) > 500
    assert not [order for order, times in Counter(order for order, _ in prices).items() if times > 1]
    effects = {int(value): price for value, price in kube.ask(service, "/effects").values()}
    assert len(effects) == len(kube.ask(service, "/effects")), "an order was asked about under two ids"
    assert effects == dict(prices)
    report("calls: a life", orders=len(prices), delivered=found["delivered"])
    job.delete()
    kube.delete("Pod", service, grace=0)


def test_a_job_goes_on_from_a_savepoint_of_requests_that_are_under_way(
    installation: Installation, kube: Kube
) -> None:
    job = FolderJob(kube, installation, fresh(), form="{number}")
    service, saved = f"{job.name}-asked", f"kept-{job.name}"
    _serve(kube, service)
    _asks(job, service)
    job.start(per_second=20)
    assert f"{saved}: Completed, epoch" in job.typed("savepoint", job.name, "--name", saved)
    other = FolderJob(kube, installation, fresh(), docs=job.name)
    _asks(other, service)
    other.extra["restoreFrom"] = {"snapshot": saved}
    other.start()
    struck(other, "worker", "exactly-once")
    other.typed("suspend", other.name)
    judged(other, "exactly-once")
    entered, prices = _delivered(other, "index"), _delivered(other, "priced")
    assert min(entered) > 0, "it begins at the savepoint"
    orders = [order for order, _ in prices]
    assert len(set(orders)) == len(orders)
    assert set(orders) >= {order for order in entered if order < max(entered) - 200}, "but what is under way"
    assert {order for order in orders if order < min(entered)}, "no request was open at its cut"
    job.delete()
    other.delete()
    kube.delete("Pod", service, grace=0)
    kube.delete("FlameStreamSnapshot", saved)


def _asks(job: FolderJob, service: str) -> None:
    """It asks the service about each order."""
    host = f"{service}.{job.kube.namespace}.svc"
    job.runs("prices", _PRICES.replace("ADDRESS", host), "index", "priced", "dead")
    job.extra |= {
        "onError": {"deadLetter": "dead"},
        "calls": {"priced": {"timeout": "3s"}},
        "egress": [f"{host}:7003"],
    }


def _serve(kube: Kube, name: str) -> None:
    """The service, by its name in the namespace."""
    kube.apply(
        config_map(name, {SERVICE.name: SERVICE.read_text()}),
        restricted_pod(
            name,
            "python3",
            f"/e2e/{SERVICE.name}",
            "7003",
            *("--host", "0.0.0.0", "--faults", FAULTS),
            labels={"app": name},
            mounts={"code": ({"configMap": {"name": name}}, "/e2e")},
        ),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 7003}]},
        },
    )
    kube.wait_condition("Pod", name, "Ready", 60)


def _delivered(job: FolderJob, sink: str) -> list[Any]:
    return [json.loads(line) for line in job.typed("cat", sink, job.name).splitlines()]
