"""Every guarantee through a life on a cluster: kills, suspend, resume, savepoint, edits, restore.

Exactly once: windows of event time here, and all other files.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube

Report = Callable[..., None]


@pytest.mark.parametrize("guarantee", ["exactly-once-2pc", "strong-productions", "at-least-once"])
def test_a_life_under_a_guarantee(
    installation: Installation, kube: Kube, report: Report, guarantee: str
) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"guarantee": guarantee})
    job.start()
    report(f"{guarantee}: worker killed twice", **struck(job, "worker", guarantee, times=2))
    job.typed("suspend", job.name)
    judged(job, guarantee)
    job.typed("resume", job.name, "--wait")
    saved = f"kept-{job.name}"
    assert f"{saved}: Completed, epoch" in job.typed("savepoint", job.name, "--name", saved)
    edited(job, checkpoint={**job.manifest()["spec"]["checkpoint"], "interval": "500ms"})
    edited(job, workers={"replicas": 3, "standby": 0})
    report(f"{guarantee}: executor killed", **struck(job, "executor", guarantee))
    found = judged(job, guarantee)
    other = FolderJob(
        kube,
        installation,
        fresh(),
        docs=job.name,
        extra={"guarantee": guarantee, "restoreFrom": {"snapshot": saved}},
    )
    other.start()
    struck(other, "worker", guarantee)
    judged(other, guarantee)
    report(
        f"{guarantee}: a life",
        **{name: found[name] for name in ("delivered", "lost", "doubled", "reordered")},
    )
    other.delete()
    job.delete()
    kube.delete("FlameStreamSnapshot", saved)


_NUMBERS = """
import flamestream as fs

graph = fs.Graph("numbers")
graph.source("docs").map(lambda document: int(document.text)).sink("index", key=lambda number: number % 7)
"""


def test_at_most_once_loses_what_it_counts_and_doubles_nothing(
    installation: Installation, kube: Kube, report: Report
) -> None:
    """No journal says which documents have entered, so the output itself is looked at: they are numbered."""
    extra = {"guarantee": "at-most-once", "journal": None}
    job = FolderJob(kube, installation, fresh(), form="{number}", extra=extra)
    job.runs("numbered", _NUMBERS, "index")
    job.start(per_second=20)
    for target in ("worker", "executor"):
        found = job.drill(target, audit=False)
        assert (found["done"], found["reason"]) == (1, "NotAudited"), found
        assert "output went on" in found["message"], found
    job.typed("suspend", job.name)
    job.typed("resume", job.name, "--wait")
    saved = f"kept-{job.name}"
    assert f"{saved}: Completed, epoch" in job.typed("savepoint", job.name, "--name", saved)
    edited(job, workers={"replicas": 3, "standby": 0})
    job.typed("suspend", job.name)  # drained: all that has entered and was not skipped is out
    numbers = sorted(json.loads(line) for line in job.typed("cat", "index", job.name).splitlines())
    assert len(set(numbers)) == len(numbers) > 100
    skipped = int(job.status()["skipped"]["docs"])
    assert len(numbers) + skipped == numbers[-1] + 1
    report("at-most-once: a life", delivered=len(numbers), skipped=skipped)
    job.delete()
    kube.delete("FlameStreamSnapshot", saved)


_SUMS = """
import flamestream as fs

def key(number): return number % 97
def total(accumulator, number): return accumulator + number
def both(accumulator, number): return number, accumulator

def booked(state, number):
    state["books", number % 97] += number
    return -number, state["books", number % 97]

graph = fs.Graph("sums")
graph.table("books", initial=int)
numbers = graph.source("numbers")
sums = numbers.reduce(key=key, initial=int, combine=total, emit=both)
sums.merge(numbers.transact(booked).committed).sink("index")
"""


def test_micro_batches_through_a_life(installation: Installation, kube: Kube, report: Report) -> None:
    """The driver is the worker, and its executors compute."""
    extra = {
        "guarantee": "micro-batch",
        "journal": None,
        "sources": {"numbers": {"generator": {"rate": 300}}},
    }
    job = FolderJob(kube, installation, fresh(), docs="generated", standby=0, extra=extra)
    job.runs("sums", _SUMS, "index")
    job.start()
    for target in ("executor", "driver"):
        report(f"micro-batch: {target} killed", **struck(job, target, "micro-batch"))
    job.typed("suspend", job.name)
    judged(job, "micro-batch")
    job.typed("resume", job.name, "--wait")
    saved = f"kept-{job.name}"
    assert f"{saved}: Completed, epoch" in job.typed("savepoint", job.name, "--name", saved)
    edited(job, checkpoint={**job.manifest()["spec"]["checkpoint"], "interval": "500ms"})
    edited(job, workers={"replicas": 3, "standby": 0})
    struck(job, "executor", "micro-batch")
    found = judged(job, "micro-batch")
    bounded = {**extra, "sources": {"numbers": {"generator": {"rate": 300, "count": 20_000}}}}
    other = FolderJob(
        kube, installation, fresh(), docs="generated", standby=0, extra={**bounded, "restoreFrom": {"snapshot": saved}}
    )  # fmt: skip
    other.runs("sums", _SUMS, "index")
    kube.apply(other.application())
    other.apply()
    kube.wait_condition("FlameStreamJob", other.name, "Completed", 200)
    judged(other, "micro-batch")
    report(
        "micro-batch: a life", **{name: found[name] for name in ("delivered", "lost", "doubled", "reordered")}
    )
    other.delete()
    job.delete()
    kube.delete("FlameStreamSnapshot", saved)


def test_none_keeps_nothing_and_runs_on(installation: Installation, kube: Kube) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"guarantee": "none", "journal": None})
    job.start()
    attempt = job.status()["attempt"]
    found = job.drill("worker", audit=False)
    assert (found["done"], found["reason"]) == (1, "NotAudited") and "output went on" in found["message"], (
        found
    )
    assert job.status()["attempt"] > attempt
    job.delete()


_WINDOWS = """
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True, slots=True)
class Numbered:
    at: int
    number: int
    group: int

def numbered(document: fs.Document) -> Numbered:
    number = int(document.text)
    return Numbered(0 if number % 20 == 0 else number, number, number % 7)

graph = fs.Graph("windows")
counts = graph.source("docs", numbered, at="at", unit="s", late="5s").window(fs.tumbling("10s"), key="group").count()
counts.sink("index", key=fs.field("key"))
counts.late.sink("late", key=fs.field("group"))
"""
"""Each document is a second later than the one before, but for every twentieth, which is of the beginning."""


def test_windows_count_each_event_once_through_kills_and_tell_how_far_event_time_has_come(
    installation: Installation, kube: Kube
) -> None:
    job = FolderJob(kube, installation, fresh(), form="{number}")
    job.runs("windows", _WINDOWS, "index", "late")
    job.start(per_second=20)
    for target in ("worker", "driver"):
        struck(job, target, "exactly-once")
    assert int(job.wait_status("eventTimes")["docs"].removesuffix(" s").replace(",", "")) >= 0
    assert "event time docs: " in job.typed("status", job.name)
    job.typed("suspend", job.name)  # nothing is in flight then: a window of all keys is there
    assert judged(job, "exactly-once")["delivered"] > 100
    counts, late = (
        [json.loads(line) for line in job.typed("cat", sink, job.name).splitlines()]
        for sink in ("index", "late")
    )
    end = max(each["end"] for each in counts)
    on_time = Counter((number // 10 * 10, number % 7) for number in range(10, end) if number % 20)
    assert {(each["start"], each["key"]): each["value"] for each in counts if each["start"]} == on_time
    assert {each["number"] for each in late} >= {*range(40, end - 20, 20)}, "what is of a window that is over"
    job.delete()


_CLOCKS = """
import flamestream as fs

def number_of(document: fs.Document) -> int:
    return int(document.text)

graph = fs.Graph("clocks")
numbers = graph.source("docs", number_of, clock="arrival")
windows = numbers.window(fs.tumbling("2s"), key=lambda number: number % 7).collect()
windows.map(lambda window: window.value).sink("index", key=len)
ticks = graph.clock("tick", every="1s").window(fs.tumbling("4s"), key=lambda moment: 0).collect()
ticks.map(lambda window: tuple(moment.timestamp() for moment in window.value)).sink("ticks")
"""


def test_what_clocks_said_is_said_again_through_kills(installation: Installation, kube: Kube) -> None:
    """Windows of when documents arrived, and of a clock's moments: the journal has both."""
    job = FolderJob(kube, installation, fresh(), form="{number}")
    job.runs("clocks", _CLOCKS, "index", "ticks")
    job.start(per_second=20)
    for target in ("worker", "driver"):
        struck(job, target, "exactly-once")
    job.typed("suspend", job.name)
    assert judged(job, "exactly-once")["delivered"] > 20
    numbers, moments = (
        [one for line in job.typed("cat", sink, job.name).splitlines() for one in json.loads(line)]
        for sink in ("index", "ticks")
    )
    assert len(numbers) > 200
    assert sorted(numbers) == list(range(len(numbers))), "each document is in one window"
    assert moments == sorted(set(moments)) and all(moment == int(moment) for moment in moments)
    job.delete()


def struck(job: FolderJob, target: str, guarantee: str, times: int = 1) -> dict[str, Any]:
    """A drill that passes, which says that output went on and that what was delivered is right."""
    status = job.drill(target, times=times)
    assert (status["phase"], status["reason"], status["done"]) == ("Passed", "Clean", times), (
        guarantee,
        status,
    )
    return {"faults": status["faults"], "audit": status["audit"]}


def edited(job: FolderJob, **changes: Any) -> None:
    """Another manifest, until it is what runs; the drill behind it says that results come."""
    job.extra |= changes
    job.apply_and_wait()


def judged(job: FolderJob, guarantee: str) -> dict[str, Any]:
    """By the audit's own pod; repeats of equal bytes are no fault under at-least-once."""
    found: dict[str, Any] = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"] and found["delivered"] > 0, (guarantee, found)
    return found
