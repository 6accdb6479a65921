"""Upgrades of Flink with the steps of its Kubernetes operator (e2e/support/flink.py): how long the output stands
still, beside that of test_ten_upgrades.py in the same session. Some five minutes; where E2E_FLINK_IMAGE is set."""

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from e2e.support.flink import IMAGE, FlinkStream
from e2e.support.installation import Installation
from e2e.support.kube import Kube

UPGRADES: Final = 5
Report = Callable[..., None]
pytestmark = pytest.mark.skipif(not IMAGE, reason="E2E_FLINK_IMAGE names no image of Flink")


@pytest.fixture(scope="module")
def flink(installation: Installation, kube: Kube) -> Iterator[FlinkStream]:
    made = FlinkStream(kube, installation.node, words=60)
    try:
        made.start()
        yield made
    finally:
        made.delete()


def test_upgrades_with_savepoint_and_restart(flink: FlinkStream, report: Report) -> None:
    for _ in range(UPGRADES):
        measure(flink, report, "Flink, savepoint and restart", flink.upgrade)


def test_upgrades_to_pods_that_are_there(flink: FlinkStream, report: Report) -> None:
    for _ in range(UPGRADES):
        flink.stand_by()
        measure(flink, report, "Flink, its pods there before", flink.upgrade_to_standby)
        flink.tidy()


def measure(flink: FlinkStream, report: Report, what: str, upgrade: Callable[[], dict[str, float]]) -> None:
    """One upgrade in a calm stream, with its gap and an audit behind it."""
    since = flink.ask("/state")["now"]
    time.sleep(6.0)  # a time in which nothing may happen
    calm = flink.ask(f"/gap?since={since}")["gap_ms"]
    since = flink.ask("/state")["now"]
    steps = upgrade()
    flink.wait_flowing()
    time.sleep(3.0)
    gap = flink.ask(f"/gap?since={since}")["gap_ms"]
    verdict = flink.ask("/audit")
    figures = {name: verdict[name] for name in ("clean", "items", "documents")}
    report(what, gap_ms=gap, calm_ms=calm, **steps, **figures)
    assert verdict["clean"], verdict
