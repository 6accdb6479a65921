"""A run's figures are those of the outcomes that came, and its job is the one that is asked for."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from bank import runs
from bank.judge import Faults
from bank.outside import AGAIN, QUIET, Still
from bank.runs import Came, Ran, Settings, loop, ours, ran
from bank.serial import Serial
from bank.workloads import WORKLOADS
from nexmark.outside import Past, Phase
from systems.base import Command, Failed

SLOW = Past("slow", first=0, count=10, start=100.0, rate=10.0)
FULL = Past("full", first=10, count=8, start=200.0, rate=0.0)


def run(*came: tuple[float, int], kills: tuple[float, ...] = ()) -> Ran:
    outcomes = [(when, (number, 0, 0)) for when, number in came]
    return Ran({"slow": SLOW, "full": FULL}, Came(outcomes, []), Serial(), list(kills))


def test_a_latency_is_from_when_the_transfer_was_due() -> None:
    assert run((100.0, 0), (100.35, 1), (300.0, 10)).latencies("slow") == pytest.approx([0, 250])


def test_a_phase_whose_outcomes_come_long_behind_it_is_not_carried() -> None:
    in_time = [(SLOW.due(number) + 0.5, number) for number in range(10)]
    late = [*in_time[:9], (SLOW.due(9) + 5.0, 9)]
    assert run(*in_time).paced("slow")["carried"] and not run(*late).paced("slow")["carried"]


def test_a_phase_without_outcomes_says_so() -> None:
    assert run().paced("slow") == {"rate": 10, "reason": "no outcome came"}


def test_the_rate_is_that_behind_the_first_quarter() -> None:
    slow_start = [(200.0, 10), (209.0, 11)]
    assert run(*slow_start, *((210 + at / 2, 12 + at) for at in range(6))).rate("full") == pytest.approx(2.0)


def test_a_gap_is_the_longest_silence_around_a_kill() -> None:
    times = [1.0, 2.0, 3.0, 3.1, 3.9, 4.0, 9.0]
    ran = run(*((when, number) for number, when in enumerate(times)))
    assert ran.gap(3.05, within=0.9) == pytest.approx(800)


def test_a_silence_that_begins_with_the_kill_counts_to_its_end_however_long() -> None:
    ran = run((1.0, 0), (1.1, 1), (9.1, 2), (9.2, 3))
    assert ran.gap(1.15, within=5.0) == pytest.approx(8000)


def test_the_consumer_says_again_and_again_that_nothing_comes_but_not_before_anything_came() -> None:
    still = Still()
    assert not still.heard(QUIET * 2, anything=False)
    assert not still.heard(10.0, anything=True) and not still.heard(10.0 + QUIET - 0.1, anything=False)
    assert still.heard(10.0 + QUIET, anything=False) and still.heard(10.0 + QUIET + AGAIN, anything=False)
    assert not still.heard(20.0, anything=True)


def test_who_is_killed_is_a_worker_that_lives_in_a_job_that_runs(tmp_path: Path) -> None:
    def status(phase: str, *names: str) -> None:
        told = {"phase": phase, "workers": [{"worker": name} for name in names]}
        (tmp_path / "status.json").write_text(json.dumps(told))

    (tmp_path / "workers").mkdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name, pid in (("here", os.getpid()), ("gone", gone.pid)):
        (tmp_path / "workers" / f"{name}.json").write_text(json.dumps({"pid": pid}))
    status("recovering")
    assert runs.victim_of(tmp_path, 0) is None
    status("recovering", "here")
    assert runs.victim_of(tmp_path, 0) is None
    status("running", "here", "gone")
    assert [runs.victim_of(tmp_path, turn) for turn in range(3)] == [os.getpid(), None, os.getpid()]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_job_has_the_graph_and_the_sinks_of_its_workload_and_the_products_defaults(
    name: str, tmp_path: Path
) -> None:
    workload = WORKLOADS[name]
    ports = range(7001, 7001 + len(workload.sinks))
    ours(workload, Settings(workers=2, interval="50ms"))(7000, ports, tmp_path)
    spec = json.loads((tmp_path / "job.yaml").read_text())["spec"]
    assert spec["application"]["graph"] == workload.graph and tuple(spec["sinks"]) == workload.sinks
    assert (spec["guarantee"], spec["checkpoint"]["interval"]) == ("exactly-once", "50ms")
    assert spec["workers"] == {"replicas": 2, "standby": 0}
    assert spec["journal"].keys() == {"folder"}, "synced, as is the default"


def test_a_run_between_processes_has_the_outcomes_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CACHE", tmp_path)
    monkeypatch.setattr(runs, "PAUSE", 0.0)
    workload = WORKLOADS["aborts 10%"]
    its = ran(workload, [Phase("full", 5.0, 2_000)], loop(workload), form="lines")
    assert its.faults == Faults(0, 0, 0) and len(its.came.outcomes) == its.pasts["full"].count > 0


def test_a_run_whose_system_ends_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CACHE", tmp_path)
    workload = WORKLOADS["uniform"]
    with pytest.raises(Failed, match="it is ill"):
        ran(
            workload, [Phase("full", 5.0, 10)],
            lambda *_: Command(["sh", "-c", "echo it is ill; exit 1"]), form="lines",
        )  # fmt: skip
