"""The run folder: what one machine keeps of a running job, so that other commands find it.

    run.json       who runs
    status.json    written by the coordinator
    samples.jsonl, samples.old.jsonl    its figures of each second of the last hour (samples_file.py)
    workers/       the pid of every worker's life
    audit.json, drill.json    the last verdict of each (verdicts.py)
    logs/          what the processes print
    code/          the application as it began
    zookeeper/     data of the embedded ZooKeeper

Keeps: files are readable by their owner only (those of coordinator and workers hold the job's token), and
appear whole. Does not: decide who may run (the claim in the cluster state does).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from flamestream.core.protocol.job_record import HANDED_OVER
from flamestream.job.manifest import Job, read
from flamestream.job.status import JobStatus
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, ManifestError

DEFAULT_ROOT: Final = Path(".flamestream")


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The processes that run a job, and where."""

    job: str
    manifest: str
    """Absolute path of the manifest."""
    launcher: ProcessIdentity
    address: str
    """host:port that the coordinator listens on; "": there is none, in batches of Spark."""
    coordinator: int = 0
    """Pid of the coordinator; it changes when that is restarted."""
    zookeeper: int = 0
    driver: int = 0
    """Pid of Spark's JVM; 0 without Spark."""
    config: str = ""
    """Name of the file with what the newest workers were told; "": its launcher takes no upgrades."""
    refused: str = ""
    """The reason why workers of the newest upgrade could not be started."""

    @property
    def running(self) -> bool:
        """Whether the launcher still lives, as far as this machine can tell."""
        return self.launcher.here and self.launcher.alive


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The run folder of one job."""

    path: Path

    @classmethod
    def of(cls, job: str, chosen: Path | None) -> "RunFolder":
        """The folder of `job`: the chosen one, or ./.flamestream/JOB."""
        return cls((chosen or DEFAULT_ROOT / job).absolute())

    def made(self) -> "RunFolder":
        """Itself, with its folders there."""
        for folder in (self.path, self.logs, self.path / "workers", self.code):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self

    @property
    def code(self) -> Path:
        """Copies of applications that ran here (kept_code.py)."""
        return self.path / "code"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def worker(self, name: str) -> ProcessIdentity | None:
        """The process of a worker's life, if it left its pid here."""
        try:
            return from_json((self.path / "workers" / f"{name}.json").read_bytes(), ProcessIdentity)
        except FileNotFoundError:
            return None

    @property
    def zookeeper(self) -> Path:
        return self.path / "zookeeper"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    def write(self, name: str, value: object) -> Path:
        """Write a file for the owner's eyes only, whole or not at all. Its path."""
        # beside it, for a rename is atomic within one file system; the pid keeps two writers apart
        target, fresh = self.path / name, self.path / f".{name}.{os.getpid()}"
        # for its owner from the first moment on, for the token is in it: a chmod would come too late
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=1))
        os.replace(fresh, target)  # a reader sees the old file or the new one
        return target

    def info(self) -> RunInfo | None:
        """Who runs, or ran last; None if nobody ever did."""
        file = self.path / "run.json"
        try:
            return from_json(file.read_bytes(), RunInfo)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise Corrupt(f"{file} is not a run file: {error}; delete it if no job runs here") from error

    def status(self) -> JobStatus | None:
        """The status as the coordinator wrote it last; None before it has."""
        try:
            return from_json(self.status_file.read_bytes(), JobStatus)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise Corrupt(f"{self.status_file} is not a status file: {error}") from error

    def handed_over(self) -> str:
        """To whom its job was handed over, in words; "": to nobody."""
        status = self.status()
        return status.message if status is not None and status.outcome == HANDED_OVER else ""


def find(where: Path, chosen: Path | None) -> tuple[Job, RunFolder]:
    """The job and run folder that `where` means: a manifest, a run folder, or the name of a job that was run here."""
    named = RunFolder.of(where.name, None).path
    if not where.exists() and where == Path(where.name) and named.is_dir():
        where = named
    if not where.is_dir():
        job = read(where)
        return job, RunFolder.of(job.name, chosen)
    if chosen is not None and chosen.absolute() != where.absolute():
        raise ManifestError(f"{where} is a run folder already: leave --run-folder out, or give the manifest")
    folder = RunFolder(where.absolute())
    info = folder.info()
    if info is None:
        raise ManifestError(f"{where}: no job was ever run here: give a manifest, or the folder of a run")
    return read(Path(info.manifest)), folder
