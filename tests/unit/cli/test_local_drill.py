"""A drill on this machine: the loop over a fake place, and the real place over a run folder that a test has
written."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.cli import local_drill
from flamestream.cli.drill_report import CODES, code_of_drill, fault_told, verdict_told
from flamestream.cli.local_drill import LocalPlace, Role, cannot_audit, drilled
from flamestream.job.drills.observed import DrillObserved, DrillPlan
from flamestream.job.drills.status import AuditResult, DrillStatus, FaultResult, Reason
from flamestream.job.exit_codes import ExitCode
from flamestream.job.status import JobStatus, WorkerFigures
from flamestream.job.validation import CheckedJob, checked
from flamestream.machine.process_identity import ProcessIdentity, start_ticks
from flamestream.model.errors import UserError
from flamestream.node.run_folder import RunFolder, RunInfo

PLAN = DrillPlan(job="sums", target="worker", times=2, after=0.0)


class FakePlace:
    """A job that is whole and gives results, unless a test says otherwise. `struck` are faults that were
    made."""

    def __init__(self, **wrong: Any) -> None:
        self.wrong, self.now, self.count = wrong, 1000.0, 0
        self.struck: list[str] = []
        self.audits = 0

    def look(self, plan: DrillPlan, status: DrillStatus) -> DrillObserved:
        self.count += 1
        workers = [WorkerFigures(worker="w1", connected=True, memory=1, bundles=self.count)]
        attempt = 1 + len(self.struck)
        told = JobStatus(
            job="j", pid=1, updated=0, phase="running", attempt=attempt, workers=workers, epoch=self.count
        )
        given: dict[str, Any] = {
            "job_phase": "Running", "workers": 1, "attempt": attempt, "told": told,
            "victims": {"w1": ("7/1",)}, "sight": "gone",
            "audit": AuditResult(clean=True, records=3, delivered=3, complete=True) if self.audits else None,
        }  # fmt: skip
        return DrillObserved(now=self.now, plan=plan, status=status, **(given | self.wrong))

    def strike(self, status: DrillStatus) -> None:
        self.struck.append(status.victim)

    def audit(self) -> None:
        self.audits += 1

    def rest(self, seconds: float) -> None:
        self.now += seconds


def test_a_drill_strikes_as_often_as_asked_tells_each_fault_and_audits_once() -> None:
    place, told = FakePlace(), list[FaultResult]()
    status = drilled(place, PLAN, told.append)
    assert (status.phase, place.struck, place.audits, [fault.victim for fault in told]) == (
        "Passed",
        ["w1", "w1"],
        1,
        ["w1", "w1"],
    )


WRONG: dict[str, tuple[dict[str, Any], ExitCode]] = {
    "completed before": ({"job_phase": "Completed", "told": None}, ExitCode.UNPROVEN),
    "not there": ({"job_phase": ""}, ExitCode.USAGE),
    "stopped": ({"job_phase": "Stopped", "told": None}, ExitCode.UNAVAILABLE),
    "nobody to kill": ({"victims": {}}, ExitCode.UNPROVEN),
    "a kill that fails": ({"refused": "not permitted"}, ExitCode.UNPROVEN),
    "a kill without effect": ({"sight": ""}, ExitCode.UNPROVEN),
    "a kill that nobody noticed": ({"attempt": 1, "told": None}, ExitCode.UNAVAILABLE),
    "not to be audited": ({"cannot_audit": "a socket sink"}, ExitCode.UNPROVEN),
    "not clean": ({"audit": AuditResult(clean=False, records=3, delivered=2, lost=1)}, ExitCode.DIFFERENCE),
}


@pytest.mark.parametrize(("wrong", "code"), WRONG.values(), ids=WRONG)
def test_each_verdict_but_a_pass_has_a_code_that_is_not_0(wrong: dict[str, Any], code: ExitCode) -> None:
    status = drilled(FakePlace(**wrong), PLAN, lambda _: None)
    assert code_of_drill(status) == code
    assert status.reason in verdict_told(status) and status.message


def test_every_reason_has_its_code_and_only_a_pass_has_0() -> None:
    reasons = set(Reason.__args__) - {""}  # type: ignore[attr-defined]  # of a Literal
    assert set(CODES) == reasons
    assert [reason for reason, code in CODES.items() if code == ExitCode.OK] == ["Clean"]


def test_a_fault_is_told_with_what_was_seen_and_how_exact_its_gap_is() -> None:
    fault = FaultResult(
        victim="w1",
        time="now",
        recovered_ms=120.4,
        seen="gone",
        recovery_ms=20,
        output_gap_ms=33,
        gap_resolution_ms=4,
    )
    assert (
        fault_told(fault)
        == "struck w1 (seen gone): whole again after 120 ms (recovery 20 ms), output gap 33 ms (to 4 ms)"
    )
    unknown = FaultResult(victim="w1", time="now", recovered_ms=120.4, seen="gone")
    assert fault_told(unknown).endswith("output gap unknown")
    assert "input ended" in fault_told(
        FaultResult(victim="w1", time="now", recovered_ms=1, seen="gone", then="ended")
    )


# --- the real place -----------------------------------------------------------------------------------------

COUNTER = itertools.count()
APPLICATION = """\
import flamestream as fs
graph = fs.Graph("sums")
graph.source("numbers").sink("out", key=lambda n: n)
"""
MANIFEST = """\
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: sums}
spec:
  application: {file: sums.py, graph: graph}
  sources: {numbers: SOURCE}
  sinks: {out: SINK}
  guarantee: exactly-once
  workers: {replicas: 1, standby: 1, slots: 16}
  checkpoint: {interval: 100ms, store: snapshots}
  JOURNAL
"""


def a_job(
    folder: Path,
    sink: str = "{files: {path: out}}",
    source: str = "{generator: {rate: 5}}",
    journal: str = "",
) -> CheckedJob:
    file = f"drilled_{next(COUNTER)}.py"  # a process imports each application under a name of its own
    (folder / file).write_text(APPLICATION)
    text = (
        MANIFEST.replace("sums.py", file)
        .replace("SOURCE", source)
        .replace("SINK", sink)
        .replace("JOURNAL", journal)
    )
    (folder / "job.yaml").write_text(text)
    return checked(folder / "job.yaml")


class Running:
    """A run folder as a launcher and a coordinator leave it, with a process that stands for everybody."""

    def __init__(self, folder: Path) -> None:
        self.job = a_job(folder)
        self.folder = RunFolder(folder / "run").made()
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.life = f"{self.process.pid}/{start_ticks(self.process.pid)}"
        self.told(pid=1)
        self.info()

    def info(self, **changes: Any) -> None:
        me = ProcessIdentity.of_this_process()
        given: dict[str, Any] = {"launcher": me, "coordinator": 1, "driver": 0} | changes
        self.folder.write("run.json", RunInfo(job="sums", manifest="job.yaml", address="", **given))
        identity = msgspec.structs.replace(me, pid=self.process.pid, ticks=start_ticks(self.process.pid))
        for name in ("w1", "w2"):
            (self.folder.path / "workers" / f"{name}.json").write_bytes(msgspec.json.encode(identity))

    def told(self, **status: Any) -> None:
        workers = [WorkerFigures(worker="w1", connected=True, memory=1, bundles=3)]
        whole: dict[str, Any] = {
            "job": "sums",
            "pid": 1,
            "updated": 0,
            "phase": "running",
            "attempt": 4,
            "workers": workers,
            "standbys": ["w2"],
        }
        self.folder.write("status.json", JobStatus(**(whole | status)))

    def look(
        self, role: Role = Role.WORKER, status: DrillStatus | None = None, place: LocalPlace | None = None
    ) -> DrillObserved:
        return (place or LocalPlace(self.job, self.folder, role)).look(PLAN, status or DrillStatus())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_job_that_runs_is_seen_with_its_workers(running: Running) -> None:
    seen = running.look()
    assert (seen.job_phase, seen.attempt, seen.workers, seen.told is not None) == ("Running", 4, 1, True)
    assert seen.victims == {"w1": (running.life,)}
    assert running.look(Role.STANDBY).victims == {"w2": (running.life,)}


def test_the_word_of_a_coordinator_that_is_gone_is_not_the_jobs(running: Running) -> None:
    running.told(pid=2, outcome="completed")
    seen = running.look()
    assert (seen.told, seen.job_phase, seen.victims) == (None, "Running", {})


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        ("completed", "Completed"),
        ("failed", "Failed"),
        ("stopped", "Stopped"),
        ("drained", "Stopped"),
        ("", "Stopped"),
    ],
)
def test_a_job_that_does_not_run_is_seen_as_it_ended(running: Running, outcome: str, phase: str) -> None:
    running.told(outcome=outcome, message="why")
    dead = msgspec.structs.replace(ProcessIdentity.of_this_process(), ticks=1)
    running.info(launcher=dead)
    assert (running.look().job_phase, running.look().job_message) == (phase, "why")


def test_a_job_that_has_ended_in_a_launcher_that_lives_is_over(running: Running) -> None:
    running.told(outcome="completed")
    assert running.look().job_phase == "Completed"


def test_a_job_that_was_never_run_is_not_there(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    assert (
        LocalPlace(job, RunFolder(tmp_path / "nowhere"), Role.WORKER).look(PLAN, DrillStatus()).job_phase
        == ""
    )


def test_an_executor_is_a_java_process_of_spark_and_nobody_elses_parent(running: Running) -> None:
    """Without Spark, the parent of a worker's parent is whoever has started the command line."""
    assert running.look(Role.EXECUTOR).victims == {}
    running.info(driver=os.getpid())
    assert running.look(Role.EXECUTOR).victims == {}
    assert running.look(Role.DRIVER).victims == {"driver": (f"{os.getpid()}/{start_ticks(os.getpid())}",)}


def test_a_kill_counts_when_the_process_is_gone(running: Running) -> None:
    place = LocalPlace(running.job, running.folder, Role.WORKER)
    struck = DrillStatus(phase="Running", victim="w1", lives=[running.life], struck_at="1970-01-01T00:00:01Z")
    assert running.look(status=struck, place=place).sight == ""
    place.strike(struck)
    running.process.wait(10)
    assert (
        running.look(status=struck, place=place).sight,
        running.look(status=struck, place=place).refused,
    ) == ("gone", "")


def test_a_process_that_has_ended_or_is_another_is_not_killed(running: Running) -> None:
    for life in (f"{running.process.pid}/1", "999999999/5"):
        place = LocalPlace(running.job, running.folder, Role.WORKER)
        struck = DrillStatus(phase="Running", victim="w1", lives=[life], struck_at="1970-01-01T00:00:01Z")
        place.strike(struck)
        assert "ended before it was struck" in running.look(status=struck, place=place).refused
    assert running.process.poll() is None


def test_a_kill_that_is_not_permitted_is_refused_with_the_reason(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", kill)
    place = LocalPlace(running.job, running.folder, Role.WORKER)
    struck = DrillStatus(phase="Running", victim="w1", lives=[running.life], struck_at="1970-01-01T00:00:01Z")
    place.strike(struck)
    assert "Operation not permitted" in running.look(status=struck, place=place).refused


REPLACED: list[tuple[Role, str, dict[str, Any], bool]] = [
    (Role.WORKER, "w1", {}, False),
    (Role.WORKER, "w1", {"workers": [WorkerFigures(worker="w2", connected=True)]}, True),
    (Role.STANDBY, "w2", {}, False),
    (Role.STANDBY, "w2", {"standbys": []}, False),
    (Role.STANDBY, "w2", {"standbys": ["w3"]}, True),
]


@pytest.mark.parametrize(("role", "victim", "after", "replaced"), REPLACED)
def test_the_victim_itself_does_not_take_its_own_place(
    running: Running, role: Role, victim: str, after: dict[str, Any], replaced: bool
) -> None:
    place = LocalPlace(running.job, running.folder, role)
    struck = DrillStatus(
        phase="Running", victim=victim, lives=[running.life], struck_at="1970-01-01T00:00:01Z"
    )
    place.strike(struck)
    running.told(**after)
    assert running.look(status=struck, place=place).replaced is replaced


def test_a_coordinator_is_replaced_by_another_process(running: Running) -> None:
    running.info(coordinator=running.process.pid)
    running.told(pid=running.process.pid)
    place = LocalPlace(running.job, running.folder, Role.COORDINATOR)
    assert running.look(place=place).victims == {"coordinator": (running.life,)}
    struck = DrillStatus(
        phase="Running", victim="coordinator", lives=[running.life], struck_at="1970-01-01T00:00:01Z"
    )
    place.strike(struck)
    assert not running.look(status=struck, place=place).replaced
    running.info(coordinator=5)
    running.told(pid=5)
    assert running.look(status=struck, place=place).replaced


def test_an_audit_that_cannot_be_made_is_a_problem_and_no_verdict(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audited(*_: Any) -> Any:
        raise UserError("only some sinks can be read back")

    monkeypatch.setattr(local_drill, "audited_here", audited)
    place = LocalPlace(running.job, running.folder, Role.WORKER)
    place.audit()
    assert (running.look(place=place).audit, running.look(place=place).audit_problem) == (
        None,
        "only some sinks can be read back",
    )


UNAUDITABLE = {
    "a socket sink": ({"sink": "{socket: {address: 'h:1'}}"}, "can be read back"),
    "a journal that is trimmed": (
        {"source": "{socket: {address: 'h:1'}}", "journal": "journal: {folder: journal}"},
        "journal.keep",
    ),
}


@pytest.mark.parametrize(("settings", "words"), UNAUDITABLE.values(), ids=UNAUDITABLE)
def test_what_cannot_be_audited_is_known_before_anything_is_broken(
    tmp_path: Path, running: Running, settings: dict[str, str], words: str
) -> None:  # fmt: skip
    assert words in cannot_audit(a_job(tmp_path, **settings))
    place = LocalPlace(a_job(tmp_path, **settings), running.folder, Role.WORKER)
    status = drilled(place, PLAN, lambda _: None)
    assert (status.reason, status.done, running.process.poll()) == ("NotAudited", 0, None)


def test_what_can_be_audited_is_not_refused(tmp_path: Path) -> None:
    assert cannot_audit(a_job(tmp_path)) == ""
