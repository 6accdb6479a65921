"""A micro-batch job as a cluster runs it, on this machine: a coordinator's process, and processes of batch
workers that each have a Spark of their own. The test is the operator: it starts and kills them.

`python -m support.frames.batch_job MANIFEST COORDINATOR NAME SCRATCH` is such a worker.
"""

import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from flamestream.job.exit_codes import ended_by
from flamestream.job.settings import PYTHON, coordinator_settings
from flamestream.job.status import JobStatus
from flamestream.job.validation import checked
from flamestream.model.errors import FlameStreamError
from flamestream.net.acceptor import address_of, listen
from flamestream.node.coordinator_process import CoordinatorProcessConfig
from support.eventually import eventually
from support.runs.local_job import ENVIRONMENT, zookeeper

TOKEN = "the job's token"


class BatchJob:
    """A job in `folder`, whose manifest is there."""

    def __init__(self, manifest: Path, identity: str) -> None:
        self.folder, self._manifest = manifest.parent, manifest
        found = checked(manifest)
        settings = coordinator_settings(found.job.spec, identity, found.sources.values())
        self.settings = replace(settings, graph=found.graph.identity, python=PYTHON, heartbeat_us=2_000_000)
        self._store = found.job.store
        Path(self._store).mkdir(exist_ok=True)
        self._listener = listen("127.0.0.1")
        self.coordinator: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_coordinator(self) -> "subprocess.Popen[bytes]":
        config = CoordinatorProcessConfig(
            settings=self.settings, token=TOKEN, zookeeper=zookeeper().access, store=self._store,
            status=str(self.folder / "status.json"), parent=os.getpid(),
        )  # fmt: skip
        file = self.folder / "coordinator.json"
        file.write_bytes(msgspec.json.encode(config))
        fd = self._listener.fileno()
        command = [sys.executable, "-m", "flamestream.node.coordinator_process", str(file), "--fd", str(fd)]
        self.coordinator = self._started("coordinator", command, (fd,))
        return self.coordinator

    def start_worker(self) -> "subprocess.Popen[bytes]":
        name = f"b{len(self.workers)}"
        command = [
            sys.executable, "-m", "support.frames.batch_job", str(self._manifest), self.settings.job,
            address_of(self._listener), name, str(self.folder / f"spark-{name}"),
        ]  # fmt: skip
        self.workers.append(self._started(name, command))
        return self.workers[-1]

    def status(self) -> JobStatus:
        """Of the coordinator, as it wrote it last."""
        try:
            return msgspec.json.decode((self.folder / "status.json").read_bytes(), type=JobStatus)
        except FileNotFoundError:
            return JobStatus(job="", pid=0, updated=0, phase="")

    def await_epoch(self, number: int) -> None:
        """Until so many epochs are committed."""
        eventually(lambda: self.status().epoch >= number, f"epoch {number}; see {self.folder}", within=120)

    def end(self) -> str:
        """The outcome, when there is one and every process has ended."""
        assert self.coordinator is not None
        self.coordinator.wait(180)
        for worker in self.workers:
            worker.wait(60)
        return self.status().outcome

    def _started(self, name: str, command: list[str], fds: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=ENVIRONMENT, pass_fds=fds, cwd=self.folder
            )

    def __enter__(self) -> "BatchJob":
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.coordinator, *self.workers):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
        self._listener.close()


def main(manifest: str, job: str, coordinator: str, name: str, scratch: str) -> int:
    """A life of a batch worker."""
    from flamestream.spark.batches.process import Meeting, run_batches
    from flamestream.spark.frames.session import frames_settings
    from flamestream.spark.streaming.session import SparkDriver

    meeting = Meeting(job=job, coordinator=coordinator, token=TOKEN, address="127.0.0.1:1")
    settings = frames_settings(cores=2, scratch=Path(scratch), python_path=(Path(manifest).parent,))
    try:
        with SparkDriver(settings) as spark:
            run_batches(spark, checked(Path(manifest)), name, meeting)
    except FlameStreamError as error:
        return ended_by(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
