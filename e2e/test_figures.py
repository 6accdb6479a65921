"""Figures that no fault is needed for: latency outside the job, at 50 documents a second, from a minute after Ready on."""

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.installation import Installation
from e2e.support.kube import Kube, until
from e2e.support.stream import Stream

PER_SECOND = 50
SETTLES, TAKES = 60, 30
"""Seconds."""


@pytest.fixture(scope="module")
def quick(installation: Installation, kube: Kube) -> Iterator[Stream]:
    made = Stream(kube, installation, standby=0, words=60, name=fresh())
    made.prepare()
    made.apply()
    made.wait_ready()
    yield made
    kube.delete("flamestreamjob", made.name, "--timeout=90s")
    kube.delete("pod", "outside", "--force", "--grace-period=0")


def test_latency_outside_and_as_the_status_has_it(quick: Stream, report: Callable[..., None]) -> None:
    quick.send(PER_SECOND, PER_SECOND * (SETTLES + TAKES))
    time.sleep(SETTLES)  # the figure is of a stream that has run so long
    first = quick.state()["sent"]
    until("all documents are sent", lambda: (s := quick.state())["sent"] >= s["wanted"], TAKES + 60, 1)
    verdict = quick.wait_through()
    assert verdict["complete"] and verdict["clean"], verdict
    found = quick.ask(f"/latency?first={first}&last={PER_SECOND * (SETTLES + TAKES)}")
    assert found["documents"] > 0 and found["p50"] <= found["p99"]
    report("latency", per_second=PER_SECOND, **found, status=quick.status().get("latency"))
