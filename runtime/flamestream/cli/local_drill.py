"""A drill's place on this machine: what it sees of a job that `flamestream run` runs here, whom it can kill,
and the loop around it.

    role          what is killed
    worker        the Python process of a worker of the layout
    standby       that of a standby
    executor      the JVM that a worker runs under (on a local master that is the driver)
    driver        Spark's driver JVM, and with it every worker
    coordinator   its process

Keeps: only processes of this job are killed, by pids that it wrote itself and that are still the same
processes; one counts as killed when it is gone. Does not: start jobs, or decide anything (job/drills/drill.py).
"""

import enum
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from flamestream.audit.job_audit import audited_here
from flamestream.audit.report import result_of
from flamestream.connectors import sinks
from flamestream.job.drills.drill import step
from flamestream.job.drills.observed import DrillObserved, DrillPlan
from flamestream.job.drills.status import OVER, AuditResult, DrillStatus, FaultResult
from flamestream.job.manifest_rules import why_not_audited
from flamestream.job.settings import fronts_of
from flamestream.job.status import JobStatus
from flamestream.job.validation import CheckedJob
from flamestream.local.output_watch import LOOK, OutputWatch
from flamestream.machine.process_identity import start_ticks
from flamestream.model.errors import FlameStreamError, UserError
from flamestream.node.run_folder import RunFolder, RunInfo

POLL: Final = 0.01
REPORTED_MS: Final = 100.0
"""Workers report what they gave so often: what a killed one gave behind its last report is not known."""
_ENDED: Final = {"completed": "Completed", "failed": "Failed"}


class Role(enum.StrEnum):
    """The part of a job that is killed."""

    WORKER = "worker"
    STANDBY = "standby"
    EXECUTOR = "executor"
    DRIVER = "driver"
    COORDINATOR = "coordinator"


HITS: Final = (Role.WORKER, Role.EXECUTOR, Role.DRIVER)
"""Roles whose loss makes a new attempt."""


class Place(Protocol):
    """The place of a drill: it looks, strikes, audits and waits."""

    def look(self, plan: DrillPlan, status: DrillStatus) -> DrillObserved: ...
    def strike(self, status: DrillStatus) -> None: ...
    def audit(self) -> None: ...
    def rest(self, seconds: float) -> None: ...


def drilled(place: Place, plan: DrillPlan, told: Callable[[FaultResult], None]) -> DrillStatus:
    """Carry a drill out. Each fault is told when it is over."""
    status = DrillStatus()
    while True:
        next_step = step(place.look(plan, status))
        if next_step.status.done > status.done:
            told(next_step.status.faults[-1])
        status = next_step.status
        if status.phase in OVER:
            return status
        if next_step.effect == "strike":
            place.strike(status)
        elif next_step.effect == "audit":
            place.audit()
        place.rest(next_step.look_again)


class LocalPlace:
    """A job of this machine. To be used as a context: its output is watched meanwhile."""

    def __init__(self, checked: CheckedJob, folder: RunFolder, role: Role) -> None:
        self._checked, self._folder, self._role = checked, folder, role
        folders = sink_folders(checked)
        self._watch = OutputWatch(folders) if len(folders) == len(checked.job.spec.sinks) else None
        self._refused = self._audit_problem = ""
        self._audit: AuditResult | None = None
        self._before: JobStatus | None = None

    def __enter__(self) -> "LocalPlace":
        if self._watch is not None:
            self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._watch is not None:
            self._watch.__exit__(*error)

    def look(self, plan: DrillPlan, status: DrillStatus) -> DrillObserved:
        """The state of the job and of its processes now."""
        info, said = self._folder.info(), self._folder.status()
        runs = info is not None and info.running
        # The file may be the word of a coordinator that is gone: only that of the one that runs counts.
        told = (
            said if runs and info is not None and said is not None and said.pid == info.coordinator else None
        )
        ended = _ENDED.get(said.outcome, "Stopped") if said is not None else "Stopped"
        phase = "" if info is None else "Running" if runs and (told is None or not told.outcome) else ended
        return DrillObserved(
            now=time.time(),
            plan=plan,
            status=status,
            job_phase=phase,
            job_uid=f"{info.launcher.pid}/{info.launcher.ticks}" if info is not None else "",
            job_message=said.message if said is not None else "",
            workers=self._checked.job.spec.workers.least,
            attempt=said.attempt if said is not None else 0,
            told=self._seen_outside(told),
            gap_resolution_ms=LOOK * 1000 if self._watch is not None else REPORTED_MS,
            victims=self._victims(info, told) if info is not None and told is not None else {},
            cannot_audit=cannot_audit(self._checked)
            if status.phase == "Pending" and phase and plan.audit
            else "",
            refused=self._refused,
            sight="gone" if status.lives and not any(map(_lives, status.lives)) else "",
            replaced=self._is_replaced(status, told),
            audit=self._audit,
            audit_problem=self._audit_problem,
        )

    def strike(self, status: DrillStatus) -> None:
        """SIGKILL, if it is still the process that was announced."""
        self._before = self._folder.status()  # what its place is compared with
        for life in status.lives:
            if not _lives(life):  # (!) a pid may be another process by now
                self._refused = f"{status.victim} had ended before it was struck"
                return
            try:
                os.kill(_pid(life), signal.SIGKILL)
            except OSError as error:
                self._refused = f"the kill of {status.victim} (pid {_pid(life)}) failed: {error}"
                return

    def audit(self) -> None:
        """Everything that was delivered."""
        try:
            self._audit = result_of(audited_here(self._checked, self._folder))
        except UserError as error:
            self._audit_problem = str(error)

    def rest(self, seconds: float) -> None:
        time.sleep(min(seconds, POLL))

    def _seen_outside(self, told: JobStatus | None) -> JobStatus | None:
        """With the gaps that are seen where the output is, if it is in folders: nothing that dies takes them
        along."""
        if told is None or self._watch is None:
            return told
        gaps = self._watch.gaps
        return replace(told, first_output=gaps.first, last_output=gaps.last, gaps=gaps.all())

    def _victims(self, info: RunInfo, told: JobStatus) -> dict[str, tuple[str, ...]]:
        """The coordinator and the driver are children of the launcher, which lives: their pids are theirs."""
        if self._role in (Role.COORDINATOR, Role.DRIVER):
            pid = info.coordinator if self._role is Role.COORDINATOR else info.driver
            return {self._role.value: (_life(pid),)} if pid else {}
        names = told.standbys if self._role is Role.STANDBY else [worker.worker for worker in told.workers]
        here = {
            name: found
            for name in names
            if (found := self._folder.worker(name)) is not None and found.here and found.alive
        }
        if self._role is not Role.EXECUTOR:
            return {name: (f"{found.pid}/{found.ticks}",) for name, found in here.items()}
        # A worker's parent is Spark's daemon, and that one's the JVM.
        above = {name: _parent(_parent(found.pid)) for name, found in here.items()} if info.driver else {}
        return {f"executor of {name}": (_life(pid),) for name, pid in above.items() if _is_java(pid)}

    def _is_replaced(self, status: DrillStatus, told: JobStatus | None) -> bool:
        before = self._before
        if not status.struck_at or told is None or before is None:
            return True
        if self._role is Role.COORDINATOR:
            return told.pid != _pid(status.lives[0])
        if self._role is Role.STANDBY:
            return len(told.standbys) >= len(before.standbys) and status.victim not in told.standbys
        return status.victim not in [worker.worker for worker in told.workers]


def sink_folders(checked: CheckedJob) -> list[Path]:
    """The folders of logs that the job's sinks write."""
    return [
        Path(folder)
        for name in checked.job.spec.sinks
        if (folder := sinks.log_folder(checked.job.sink(name))) is not None
    ]


def cannot_audit(checked: CheckedJob) -> str:
    """Why this job's output can never be audited, as far as its settings say; "": it may be."""
    journal = checked.job.spec.journal
    if why := why_not_audited(checked.job.spec.guarantee):
        return why
    for name in checked.sinks:
        try:
            # nothing is read before somebody asks for the first
            sinks.read(checked.job.sink(name), f"spec.sinks.{name}", checked.job.name)
        except UserError as error:
            return str(error)
        except FlameStreamError:  # of a job that has just begun: an audit would say so
            continue
    for front in fronts_of(checked):
        if not front.timed and (journal is None or not journal.keep):
            why = "in which order its records enter is only in the journal"
            return f"source {front.source!r}: {why}: set spec.journal.keep: true before the run"
    return ""


def _life(pid: int) -> str:
    return f"{pid}/{start_ticks(pid)}"


def _pid(life: str) -> int:
    return int(life.partition("/")[0])


def _lives(life: str) -> bool:
    ticks = int(life.partition("/")[2])
    # 0: there was no such process when it was looked for.
    return bool(ticks) and start_ticks(_pid(life)) == ticks


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _is_java(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
