"""`flamestream drill`: kills a part of a running job with SIGKILL, watches it come back, and audits what it delivered.

    role          what is killed
    worker        the Python process of a random worker of the layout
    standby       that of a random standby
    executor      the JVM that the worker runs under (on a local master that is the driver)
    driver        Spark's driver JVM, and with it every worker
    coordinator   its process

Keeps: only processes of this job are killed, by pids that it wrote itself and that are still the same processes. Does not: start jobs.
"""

import enum
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from flamestream.adapters.status_file import JobStatus
from flamestream.cli.audit import Report, audited_here, sentence
from flamestream.cli.cat import JobPlace
from flamestream.cli.exit_codes import ExitCode
from flamestream.cli.manifest import Job
from flamestream.cli.output import Json, as_json, errors, say
from flamestream.cli.output_watch import OutputWatch
from flamestream.cli.progress import status_of
from flamestream.cli.run import RunFolderOption
from flamestream.cli.run_folder import RunFolder, RunInfo, find
from flamestream.cli.validation import checked_job
from flamestream.model.errors import Retryable, UserError

NEEDS_ARGUMENTS = True
BACK_WITHIN: Final = 120.0
POLL: Final = 0.01
SHORTEST: Final = 0.2
"""Seconds of normal life between two faults, at least."""
OUTPUT_WITHIN: Final = 10.0
"""Seconds behind a recovery after which a job without output has none to give."""


class Role(enum.StrEnum):
    """What to kill."""

    WORKER = "worker"
    STANDBY = "standby"
    EXECUTOR = "executor"
    DRIVER = "driver"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kill, and what it cost."""

    role: str
    pid: int
    victim: str
    back_ms: float
    """Until the job was whole again."""
    gap_ms: float | None
    """The longest time without output around it, if there was output."""


def command(
    job: JobPlace,
    kill: Annotated[Role, typer.Option(help="What to kill.")] = Role.WORKER,
    times: Annotated[int, typer.Option(min=1, max=1000, help="How often.")] = 1,
    after: Annotated[float | None, typer.Option(min=0, help="Seconds before each kill; random if left out.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Of the random moments and victims.")] = 0,
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Kill a part of a running job, wait until it is whole again, and audit everything it delivered.

    Example: [bold]flamestream drill job.yaml --kill worker --times 3[/bold]. Exit code 3 if the audit finds a difference.
    """
    found, folder = find(job, run_folder)
    rng = random.Random(seed)
    faults = []
    with OutputWatch(sink_folders(found)) as watch:
        for _ in range(times):
            fault = strike(folder, kill, rng, rng.uniform(SHORTEST, 3.0) if after is None else after, watch)
            if fault is None:
                errors.print("the job has ended: no more faults", markup=False)
                break
            faults.append(fault)
            if not json:
                say(told(fault))
    report = audited_here(checked_job(found), folder)
    _say(faults, report, json)


def told(fault: Fault) -> str:
    """A fault in a line."""
    gap = "" if fault.gap_ms is None else f", output gap {fault.gap_ms:.0f} ms"
    return f"killed {fault.role} {fault.victim} (pid {fault.pid}): whole again after {fault.back_ms:.0f} ms{gap}"


def sink_folders(job: Job) -> list[Path]:
    """Where the job's files sinks write."""
    return [Path(spec["files"]["path"]) for name in job.spec.sinks if "files" in (spec := job.sink(name))]


def strike(folder: RunFolder, role: Role, rng: random.Random, after: float, watch: OutputWatch) -> Fault | None:
    """Wait for a whole job and `after` seconds more, kill, wait until it is whole again. None if it ended before the kill."""
    if not _await(folder, lambda status: status.phase == "running", "is not running"):
        return None
    time.sleep(after)
    info, status = _running(folder)
    if info is None or status is None or status.outcome:
        return None
    name, pid = _victim(folder, role, rng, info, status)
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    _await(folder, lambda now: _is_whole(folder, role, status, now), f"is not whole again after the death of {name}")
    back = time.monotonic()
    while time.monotonic() < back + OUTPUT_WITHIN and watch.gap_ms(back, time.monotonic()) is None and _running(folder)[0] is not None:
        time.sleep(POLL)
    return Fault(role, pid, name, (back - killed) * 1000, watch.gap_ms(killed, time.monotonic()))


def _await(folder: RunFolder, good: Callable[[JobStatus], bool], what: str) -> bool:
    """True when the status is good, False when the job has ended."""
    deadline = time.monotonic() + BACK_WITHIN
    while True:
        info, status = _running(folder)
        if info is None or (status is not None and status.outcome):
            return False
        if status is not None and good(status):
            return True
        if time.monotonic() > deadline:
            raise Retryable(f"job {info.job!r} {what} within {BACK_WITHIN:g} s: see {folder.logs}")
        time.sleep(POLL)


def _running(folder: RunFolder) -> tuple[RunInfo | None, JobStatus | None]:
    info = folder.info()
    return (info, status_of(folder)) if info is not None and info.running else (None, None)


def _is_whole(folder: RunFolder, role: Role, before: JobStatus, now: JobStatus) -> bool:
    if now.phase != "running":
        return False
    if role is Role.COORDINATOR:
        info = folder.info()
        return now.pid != before.pid and info is not None and now.pid == info.coordinator
    if role is Role.STANDBY:
        return len(now.standbys) >= len(before.standbys) and set(now.standbys) != set(before.standbys)
    return now.attempt > before.attempt


def _victim(folder: RunFolder, role: Role, rng: random.Random, info: RunInfo, status: JobStatus) -> tuple[str, int]:
    """Name and pid. The coordinator and the driver are children of the launcher, which lives: their pids are theirs."""
    children = {Role.COORDINATOR: info.coordinator, Role.DRIVER: info.driver}
    if pid := children.get(role):
        return role, pid
    names = status.standbys if role is Role.STANDBY else [worker.worker for worker in status.workers]
    here = {name: found for name in names if (found := folder.worker(name)) is not None and found.here and found.alive}
    if not here or role in children:
        raise UserError(f"job {info.job!r} has no {role} on this machine that could be killed")
    name = rng.choice(sorted(here))
    if role is not Role.EXECUTOR:
        return name, here[name].pid
    daemon = _parent(here[name].pid)
    return f"of {name}", _parent(daemon)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _say(faults: list[Fault], report: Report, json: bool) -> None:
    if json:
        as_json({"faults": [asdict(fault) for fault in faults], "audit": asdict(report)})
    else:
        say(sentence(report))
    if not report.kept:
        raise typer.Exit(ExitCode.DIFFERENCE)
