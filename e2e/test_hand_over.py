"""A job of another name goes on where one that runs ends: by its leave, with its sources, sinks and state."""

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import OTHER_CLUSTER, Installation, another_operator, install
from e2e.support.kube import Kube, Object, until


def test_green_goes_on_where_blue_ends_and_an_audit_finds_all_of_it(
    installation: Installation, kube: Kube
) -> None:
    blue = FolderJob(kube, installation, fresh())
    blue.start()
    its = blue.spec()
    places = {"sinks": its["sinks"], "takeOver": {"job": blue.name}}
    green = FolderJob(kube, installation, fresh(), docs=blue.name, extra=places)
    kube.apply(green.application())
    green.apply()
    try:
        waits = green.wait_condition("Degraded", "TakeOverWaits")
        assert "handOver: {to: " in waits["message"], waits
        assert blue.condition("Ready")["status"] == "True"

        blue.apply(handOver={"to": green.name})
        green.wait_ready(240)
        status = blue.status()
        assert (status["phase"], green.status()["identity"]) == (
            "HandedOver",
            f"{kube.namespace}.{blue.name}",
        )
        assert f"handed over to {kube.namespace}.{green.name}" in status["message"]
        told = green.drill("worker")
        assert (told["phase"], told["done"]) == ("Passed", 1), told

        kube.delete("FlameStreamJob", blue.name)
        assert green.drill("worker")["phase"] == "Passed", "what was the other's is its own now"
    finally:
        green.delete()
        blue.delete()


def audited(job: FolderJob) -> int:
    """How much was delivered, all of which an audit finds right."""
    found = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"], found
    return int(found["delivered"])


@pytest.fixture
def elsewhere(namespace: str) -> Iterator[Kube]:
    """Another namespace of the same operator."""
    made = Kube(fresh())
    made.make_namespace()
    install(namespace, made.namespace)
    yield made
    made.unmake_namespace()
    install(namespace)


def successor(blue: FolderJob, elsewhere: Kube, *, shadow: bool = False, standby: int = 1) -> FolderJob:
    """A job of another namespace, with blue's places and what it needs there, which is yet to be applied."""
    its = blue.spec()
    places = {name: its[name] for name in ("sources", "sinks")}
    take_over = {"job": f"{blue.kube.namespace}/{blue.name}", **({"shadow": True} if shadow else {})}
    extra = {**places, "takeOver": take_over}
    green = FolderJob(elsewhere, blue.installation, fresh(), docs=blue.name, standby=standby, extra=extra)
    elsewhere.apply(blue.installation.secret(), green.application())
    return green


def test_green_goes_on_in_another_namespace_with_the_leave_of_both(
    installation: Installation, kube: Kube, elsewhere: Kube
) -> None:
    blue = FolderJob(kube, installation, fresh())
    blue.start()
    blue.wait_status("epoch")
    green = successor(blue, elsewhere)
    green.apply()
    try:
        green.wait_condition("Degraded", "TakeOverWaits")
        blue.apply(handOver={"to": f"{elsewhere.namespace}/{green.name}"})
        green.wait_ready(240)
        assert blue.status()["phase"] == "HandedOver"
        assert green.status()["identity"] == f"{kube.namespace}.{blue.name}"
        kube.delete("FlameStreamJob", blue.name)
        first = audited(green)
        until("results come", lambda: audited(green) > first, 120)
    finally:
        green.delete()
        blue.delete()


def compared(job: FolderJob, records: int) -> Object:
    """What a shadow has found, once that is of more than so many records."""

    def found(it: Object) -> Object | None:
        canary = ((it.get("status", {}).get("preflight") or {}).get("canary")) or {}
        return dict(canary) if canary.get("records", 0) > records else None

    return dict(job.kube.wait("FlameStreamJob", job.name, found, 300))


def test_a_shadow_goes_on_with_a_state_of_its_own_from_pod_to_pod(
    installation: Installation, kube: Kube, elsewhere: Kube
) -> None:
    """In another namespace, where nobody sees the code of the job beside which it is."""
    blue = FolderJob(kube, installation, fresh(), standby=0)
    blue.start()
    blue.wait_status("epoch")
    green = successor(blue, elsewhere, shadow=True, standby=0)
    blue.apply(handOver={"to": f"{elsewhere.namespace}/{green.name}"})
    green.apply()
    try:
        first = compared(green, 0)
        second = compared(green, first["records"])
        for each in (first, second):
            assert (each["differ"], each.get("newErrors", 0)) == (0, 0), each
            assert each["equal"] and "begun anew" not in each["summary"], each
        assert blue.condition("Ready")["status"] == "True" and not green.pods("driver")
    finally:
        green.delete()
        blue.delete()


no_other = pytest.mark.skipif(not OTHER_CLUSTER, reason="E2E_OTHER_CLUSTER names no second cluster")


@pytest.fixture(
    params=[pytest.param("", id="an-operator"), pytest.param(OTHER_CLUSTER, marks=no_other, id="a-cluster")]
)
def another_cluster(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """A namespace of an operator that does not see the jobs of the first one: in the same cluster, or in another."""
    made = Kube(fresh(), config=request.param)
    made.make_namespace()
    operator = Kube(f"operator-{made.namespace}", config=request.param)
    with another_operator(installation, operator, made.namespace):
        yield made
        made.delete_all("FlameStreamJob")
    made.unmake_namespace()


def test_green_goes_on_in_another_cluster_with_the_leave_beside_the_record(
    installation: Installation, kube: Kube, another_cluster: Kube
) -> None:
    blue = FolderJob(kube, installation, fresh(), standby=0)
    blue.start()
    blue.wait_status("epoch")
    green = successor(blue, another_cluster, standby=0)
    green.apply()
    try:
        waits = green.wait_condition("Degraded", "TakeOverWaits")
        assert f"handOver: {{to: {another_cluster.namespace}/{green.name}}}" in waits["message"], waits
        assert blue.condition("Ready")["status"] == "True"

        blue.apply(handOver={"to": f"{another_cluster.namespace}/{green.name}"})
        green.wait_ready(240)
        blues = f"{kube.namespace}.{blue.name}"
        assert (blue.status()["phase"], green.status()["identity"]) == ("HandedOver", blues)
        kube.delete("FlameStreamJob", blue.name)
        first = audited(green)
        until("results come", lambda: audited(green) > first, 120)
    finally:
        green.delete()
        blue.delete()
