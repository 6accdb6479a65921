"""A job of another name goes on where one that runs ends: by its leave, with its sources, sinks and state."""

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube


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
