"""A run folder as a launcher and a coordinator leave it, of a job that nobody runs."""

from pathlib import Path
from typing import Any

import msgspec

from flamestream.job.status import JobStatus, LastRecovery, LatencyFigures, WorkerFigures
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.node.run_folder import RunFolder, RunInfo

SECOND = 1_000_000
BEGAN = 1_700_000_000 * SECOND
LOG_LINES = (
    '{"at": "2023-11-14T22:13:20.000+00:00", "level": "info", "logger": "c", "event": "phase", "phase": "gathering", '
    '"attempt": 0, "cause": "", "steps_us": {}}',
    '{"at": "2023-11-14T22:13:21.000+00:00", "level": "info", "logger": "c", "event": "phase", "phase": "running", '
    '"attempt": 1, "cause": "start", "steps_us": {"decide": 500000, "record": 1500}}',
    '{"at": "2023-11-14T22:13:25.000+00:00", "level": "info", "logger": "c", "event": "worker disconnected", '
    '"worker": "w0.0", "reason": "closed by the peer"}',
    '{"at": "2023-11-14T22:13:25.100+00:00", "level": "info", "logger": "c", "event": "phase", "phase": "running", '
    '"attempt": 2, "cause": "lost w0.0", "steps_us": {"decide": 1000, "record": 2000, "open": 3000, "seal": 4000}}',
)


def status(updated: int = BEGAN, **fields: Any) -> JobStatus:
    """What a coordinator writes, with these fields."""
    usual: dict[str, Any] = {
        "job": "sales",
        "pid": 7,
        "phase": "running",
        "attempt": 2,
        "epoch": 12,
        "cut_time": BEGAN - SECOND,
        "wanted": 1,
        "workers": [WorkerFigures(worker="w0.1", connected=True)],
        "latency": LatencyFigures(p50_ms=2.5, p99_ms=9.0, calls=10),
        "last_recovery": LastRecovery(cause="lost w0.0", duration_ms=10, kind="lost", attempt=2),
    }
    return JobStatus(updated=updated, **{**usual, **fields})


class ShownJob:
    """One in `root`, by its name."""

    def __init__(self, root: Path, name: str = "sales", *, manifest: str = "/nowhere/job.yaml") -> None:
        self.folder = RunFolder(root / name).made()
        identity = ProcessIdentity.of_this_process()
        dead = msgspec.structs.replace(identity, ticks=identity.ticks + 1)
        self.info = RunInfo(job=name, manifest=manifest, launcher=dead, address="127.0.0.1:1")
        self.folder.write("run.json", self.info)

    def runs(self) -> None:
        """This process is its launcher."""
        alive = msgspec.structs.replace(self.info, launcher=ProcessIdentity.of_this_process())
        self.folder.write("run.json", alive)

    def tells(self, told: JobStatus) -> None:
        self.folder.write("status.json", told)

    def logs(self, *lines: str, name: str = "coordinator-0.log") -> None:
        with (self.folder.logs / name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
