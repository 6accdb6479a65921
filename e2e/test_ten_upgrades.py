"""README's job gets another function by `kubectl apply` while a client reads its output: how long that one sees
nothing, and that an audit names the cut.

Ten upgrades of a job under load, two of which fail their watch, with a kill in each: nothing is lost or
doubled, every result is of the code whose it is, and how long the output stands still. Five more, of a job with
100 MB of state. Some sixteen minutes; not among those of each push. And beside them, where E2E_FLINK_IMAGE is
set, upgrades of Flink with the steps of its Kubernetes operator (support/flink.py), in four."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest
from harness.versions import code_of

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.flink import IMAGE, FlinkStream
from e2e.support.installation import Installation
from e2e.support.job import ROOT
from e2e.support.kube import Kube, Object, condition_of, until
from e2e.support.readme import CHANGED, Reader, ReadmeJob
from e2e.support.stream import Stream

UPGRADES: Final = 10
KEYS: Final = 100_000
"""Those of the large state, each with a value of 1,000 bytes."""
AT_ONCE: Final = 250
"""Keys of a document of those that name each once."""
OF_LARGE: Final = 5
OF_FLINK: Final = 5
FAILS: Final = (4, 8)
KILLS: Final = (faults.kill_worker, faults.delete_executor, faults.kill_leader)
MISTAKE: Final = "\n\ndef Posting(*_):\n    raise ValueError('mistaken')\n"
SETTLED: Final = 6.0
CODE: Final = (ROOT / "examples" / "inverted_index.py").read_text()
CALM: Final = 5.0
"""Seconds that a client reads before an edit, and behind the cut."""
AROUND: Final = 1.0
"""Seconds before and behind the first result of other code: the pods of that are there by then."""
Report = Callable[..., None]
needs_flink = pytest.mark.skipif(not IMAGE, reason="E2E_FLINK_IMAGE names no image of Flink")


@pytest.fixture
def readme(installation: Installation, kube: Kube, tmp_path: Path) -> Iterator[ReadmeJob]:
    made = ReadmeJob(kube, installation, fresh())
    try:
        kube.apply(installation.secret())
        made.edit(tmp_path, CODE)
        made.write(50)
        made.apply()
        made.wait_ready()
        yield made
    finally:
        made.delete()


@pytest.fixture
def reader(readme: ReadmeJob) -> Iterator[Reader]:
    made = Reader(readme)
    try:
        made.start()
        yield made
    finally:
        made.delete()


def tick_of(job: Object) -> int:
    """The cut of the tick that was made; 0: none yet."""
    recovery = job.get("status", {}).get("recovery") or {}
    return int(recovery["replayedFrom"]) if recovery.get("kind") == "tick" else 0


def test_a_client_that_reads_sees_one_cut_between_two_codes_and_the_audit_names_it(
    readme: ReadmeJob, reader: Reader, tmp_path: Path, report: Report
) -> None:
    readme.wait_status("lastStable")
    until("the client reads", lambda: reader.seen().looks, 60)
    time.sleep(CALM)  # a time in which nothing may happen
    edited = time.time()
    readme.edit(tmp_path, CODE.replace(*CHANGED))
    cut = int(readme.kube.wait("FlameStreamJob", readme.name, tick_of, 240))
    until("the client has results of both", lambda: reader.seen().first_since, 60)
    readme.wait_whole(launch=2)
    whole = time.time()
    time.sleep(CALM)  # the same
    seen = reader.seen()
    assert seen.last_before < cut <= seen.first_since, "each result is of one code"

    found = json.loads(readme.typed("audit", readme.name, "--json"))
    assert found["clean"] and [each["since"] for each in found["codes"]][1:] == [cut], found
    assert all(each["results"] for each in found["codes"]), found
    assert f"from the tick at cut {cut} on" in readme.typed("audit", readme.name)
    report(
        "README's job, another function by kubectl apply, as a client sees it",
        gap_ms=seen.pause(edited, whole + CALM),
        longest=[asdict(pause) for pause in seen.pauses(edited, whole + CALM)],
        tick_ms=seen.pause(seen.turned - AROUND, seen.turned + AROUND),
        calm_ms=seen.pause(edited - CALM, edited),
        turned_after_s=round(seen.turned - edited, 1),
        whole_after_s=round(whole - edited, 1),
        hold_ms=readme.status()["recovery"]["durationMs"],
        results=[each["results"] for each in found["codes"]],
    )


@pytest.fixture
def stream(installation: Installation, kube: Kube) -> Iterator[Stream]:
    made = Stream(kube, installation, words=60, name=fresh())
    made.extra["upgrade"] = {"watch": "15s", "canary": 0}  # the mistakes are to be found by the watch
    with flowing(made) as job:
        job.send(50, 1_000_000)
        yield job


def test_ten_upgrades_with_kills_lose_and_double_nothing(stream: Stream, report: Report) -> None:
    ticks: list[str] = []
    for number in range(1, UPGRADES + 1):
        fails, kill = number in FAILS, KILLS[number % len(KILLS)]
        since, calm = calm_before(stream)
        before = attempt_of(stream.status())
        stream.change_code(code_of(number) + (MISTAKE if fails else ""))
        if fails:
            taken_back(stream)
        else:
            ticks.append(f"{turned(stream, before)}:{number}")
        tick = gap_behind(stream, since, 1.0)
        since = stream.state()["now"]
        kill(stream)
        killed = gap_behind(stream, since, SETTLED)
        what = f"upgrade {number}{' taken back' if fails else ''}, then {kill.__name__}"
        judge(stream, ticks, report, what, gap_ms=tick, calm_ms=calm, kill_gap_ms=killed)


@pytest.fixture
def large(installation: Installation, kube: Kube) -> Iterator[Stream]:
    made = Stream(kube, installation, name=fresh(), application="big_values", keys=KEYS)
    with flowing(made) as job:
        job.send(50, 1_000_000)
        yield job


def test_upgrades_of_a_large_state_keep_all_of_it(large: Stream, report: Report) -> None:
    until("each key has its value", lambda: large.state()["sent"] > KEYS // AT_ONCE, 120)
    ticks: list[str] = []
    for number in range(1, OF_LARGE + 1):
        since, calm = calm_before(large)
        before = attempt_of(large.status())
        large.change_code(code_of(number))
        ticks.append(f"{turned(large, before)}:{number}")
        gap = gap_behind(large, since, SETTLED)
        held = large.status()["recovery"]["durationMs"]
        judge(
            large, ticks, report, f"100 MB of state, upgrade {number}", gap_ms=gap, calm_ms=calm, hold_ms=held
        )


def calm_before(stream: Stream) -> tuple[float, float]:
    """Where an upgrade may begin: the outside's time, and the longest pause of some seconds before it."""
    stream.wait_ready(240)
    stream.kube.wait("FlameStreamJob", stream.name, is_stable, 120)  # other code would need a stop before
    stream.wait_flowing(120)
    calm = gap_behind(stream, stream.state()["now"], 3.0)
    return stream.state()["now"], calm


def judge(stream: Stream, ticks: list[str], report: Report, what: str, **figures: float) -> None:
    """Report what became of all results so far; each has to be there once, of the code whose it is."""
    verdict = stream.ask(f"/audit?ticks={','.join(ticks)}")
    counts = {name: verdict[name] for name in ("clean", "lost", "doubled", "foreign", "items", "documents")}
    report(what, **figures, **counts)
    assert verdict["clean"], verdict


def gap_behind(stream: Stream, since: float, seconds: float) -> float:
    """The longest pause from then on to so many seconds from now, in milliseconds."""
    time.sleep(seconds)  # a time in which nothing may happen
    stream.wait_flowing(120)
    return float(stream.ask(f"/gap?since={since}")["gap_ms"])


def attempt_of(status: Any) -> int:
    """That of the last recovery or tick."""
    return int((status.get("recovery") or {}).get("attempt", 0))


def turned(stream: Stream, before: int) -> int:
    """Until other code has taken over, behind attempt `before`: the cut from which on all is its own."""

    def cut(job: Any) -> int:
        status = job.get("status", {})
        recovery = status.get("recovery") or {}
        is_made = attempt_of(status) > before and recovery.get("kind") == "tick"
        return int(recovery["replayedFrom"]) if is_made and not status["run"].get("next") else 0

    return int(stream.kube.wait("FlameStreamJob", stream.name, cut, 240))


def is_stable(job: Any) -> bool:
    """Whether the code that runs is one that an upgrade can go back to."""
    status = job["status"]
    return bool((status.get("lastStable") or {}).get("code") == status["run"]["code"])


def taken_back(stream: Stream) -> None:
    """Until the code before is in charge again."""

    def is_back(job: Any) -> bool:
        degraded = condition_of(job, "Degraded")
        return degraded.get("reason") == "RolledBack" and "taken back" in degraded.get("message", "")

    stream.kube.wait("FlameStreamJob", stream.name, is_back, 300)


@pytest.fixture(scope="module")
def flink(installation: Installation, kube: Kube) -> Iterator[FlinkStream]:
    made = FlinkStream(kube, installation.node, words=60)
    try:
        made.start()
        yield made
    finally:
        made.delete()


@needs_flink
def test_flink_with_savepoint_and_restart(flink: FlinkStream, report: Report) -> None:
    for _ in range(OF_FLINK):
        measure(flink, report, "Flink, savepoint and restart", flink.upgrade)


@needs_flink
def test_flink_to_pods_that_are_there(flink: FlinkStream, report: Report) -> None:
    for _ in range(OF_FLINK):
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
