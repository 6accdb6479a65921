"""Ten upgrades of a job under load, two of which fail their watch, with a kill in each: nothing is lost or doubled,
and how long the output stands still. Some ten minutes; not among those of each push."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.installation import Installation
from e2e.support.kube import Kube, condition_of
from e2e.support.stream import Stream

UPGRADES: Final = 10
FAILS: Final = (4, 8)
KILLS: Final = (faults.kill_worker, faults.delete_executor, faults.kill_leader)
MISTAKE: Final = "\n\ndef Posting(*_):\n    raise ValueError('mistaken')\n"
SETTLED: Final = 6.0
Report = Callable[..., None]


@pytest.fixture(scope="module")
def stream(installation: Installation, kube: Kube) -> Iterator[Stream]:
    made = Stream(kube, installation, words=60, name=fresh())
    made.extra["upgrade"] = {"watch": "15s", "canary": 0}  # the mistakes are to be found by the watch
    with flowing(made) as job:
        job.send(50, 1_000_000)
        yield job


def test_ten_upgrades_with_kills_lose_and_double_nothing(stream: Stream, report: Report) -> None:
    for number in range(1, UPGRADES + 1):
        stream.wait_ready(240)
        stream.wait_flowing(120)
        fails, kill = number in FAILS, KILLS[number % len(KILLS)]
        calm = gap_behind(stream, stream.state()["now"], 3.0)
        since, before = stream.state()["now"], stream.status()["run"].get("turnedAt", "")
        stream.change_code(f"\n# version {number}\n" + (MISTAKE if fails else ""))
        if fails:
            taken_back(stream)
        else:
            turned(stream, before)
        tick = gap_behind(stream, since, 1.0)
        since = stream.state()["now"]
        kill(stream)
        killed = gap_behind(stream, since, SETTLED)
        verdict = stream.ask("/audit")
        figures = {name: verdict[name] for name in ("clean", "items", "documents")}
        what = f"upgrade {number}{' taken back' if fails else ''}, then {kill.__name__}"
        report(what, gap_ms=tick, calm_ms=calm, kill_gap_ms=killed, **figures)
        assert verdict["clean"], verdict


def gap_behind(stream: Stream, since: float, seconds: float) -> float:
    """The longest pause from then on to so many seconds from now, in milliseconds."""
    time.sleep(seconds)  # a time in which nothing may happen
    stream.wait_flowing(120)
    return float(stream.ask(f"/gap?since={since}")["gap_ms"])


def turned(stream: Stream, before: str) -> None:
    """Until other code has taken over."""

    def is_turned(job: Any) -> bool:
        run = job.get("status", {}).get("run", {})
        return run.get("turnedAt", "") not in ("", before) and not run.get("next")

    stream.kube.wait("FlameStreamJob", stream.name, is_turned, 240)


def taken_back(stream: Stream) -> None:
    """Until the code before is in charge again."""

    def is_back(job: Any) -> bool:
        degraded = condition_of(job, "Degraded")
        return degraded.get("reason") == "RolledBack" and "taken back" in degraded.get("message", "")

    stream.kube.wait("FlameStreamJob", stream.name, is_back, 300)
