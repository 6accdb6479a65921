"""A job on this machine without Spark: one coordinator process, some worker processes, folders for everything
but the job record.

The test is the launcher: it keeps the listening socket, starts processes, and may kill those that it started.
"""

import atexit
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from flamestream.connectors import sinks, sources
from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.job.application import load
from flamestream.job.status import JobStatus
from flamestream.journal.places import JournalConfig
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName, SourceName, WorkerId
from flamestream.model.time import FrontId
from flamestream.net.acceptor import address_of, listen
from flamestream.node.coordinator_process import CoordinatorProcessConfig
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.eventually import eventually

# a process imports each application under a name of its own, and its jobs share a ZooKeeper
COUNTER = itertools.count()
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "PATH": os.environ["PATH"],
}


@cache
def zookeeper() -> EmbeddedZooKeeper:
    """One for all jobs of this process, while it lives."""
    folder = tempfile.TemporaryDirectory(prefix="zookeeper-")
    server = EmbeddedZooKeeper(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(server.close)  # called before that
    return server


class LocalJob:
    """One job in `folder`. `application` is the text of the user's file, which calls its graph `graph`."""

    def __init__(
        self,
        folder: Path,
        application: str,
        source: dict[str, Any],
        *,
        workers: int = 2,
        interval_us: int = 200_000,
    ) -> None:
        self.folder = folder
        self.file = folder / f"local_{os.getpid()}_{next(COUNTER)}.py"
        self.file.write_text(application)
        self.graph: Graph = load(self.file, "graph")
        (folder / "store").mkdir()
        self.listener: socket.socket = listen("127.0.0.1")
        self.sources = {vertex.name: source for vertex in self.graph.sources}
        self.sinks: dict[str, dict[str, object]] = {
            vertex.name: {"files": {"path": str(folder / f"sink-{vertex.name}")}}
            for vertex in self.graph.sinks
        }
        name = f"job-{next(COUNTER)}"
        self.worker_settings = WorkerSettings(job=name, slots=16, fronts=self._fronts(), python=PYTHON)
        self.settings = Settings(
            job=name, graph=self.graph.identity, python=PYTHON, workers=workers,
            inventory=inventory_of(self.graph, None, self._fronts()),
            fronts=len(self.graph.sources), slots=16, interval_us=interval_us,
        )  # fmt: skip
        self.coordinator: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._lives = 0

    def _fronts(self) -> tuple[FrontSettings, ...]:
        described = [
            (vertex.name, sources.describe(self.sources[vertex.name])) for vertex in self.graph.sources
        ]
        return tuple(
            FrontSettings(
                FrontId(number), SourceName(name), traits.timed, traits.run_length, traits.replayable
            )
            for number, (name, traits) in enumerate(described)
        )

    # --- processes ------------------------------------------------------------------------------------------

    def start(self, workers: int = 2) -> "LocalJob":
        self.start_coordinator()
        for _ in range(workers):
            self.start_worker()
        return self

    def start_coordinator(self) -> subprocess.Popen[bytes]:
        config = CoordinatorProcessConfig(
            settings=self.settings, token="token", zookeeper=zookeeper().access,
            store=str(self.folder / "store"), status=str(self.folder / "status.json"), parent=os.getpid(),
        )  # fmt: skip
        fd = self.listener.fileno()
        self.coordinator = self._start("coordinator", "coordinator_process", config, ["--fd", str(fd)], [fd])
        return self.coordinator

    def start_worker(self, **changes: Any) -> str:
        """A new life; its name."""
        self._lives += 1
        name = f"w{self._lives}"
        config = WorkerProcessConfig(
            worker=WorkerId(name), coordinator=address_of(self.listener), token="token",
            application=str(self.file), graph="graph", settings=self.worker_settings, sources=self.sources,
            sinks=self.sinks, store=str(self.folder / "store"),
            journal=JournalConfig(folder=str(self.folder / "journal"), fsync=False), parent=os.getpid(),
        )  # fmt: skip
        self.workers[name] = self._start(
            name, "worker_process", msgspec.structs.replace(config, **changes), [], []
        )
        return name

    def _start(
        self, name: str, module: str, config: msgspec.Struct, arguments: list[str], fds: list[int]
    ) -> subprocess.Popen[bytes]:
        file = self.folder / f"{name}.json"
        file.write_bytes(msgspec.json.encode(config))
        command = [sys.executable, "-m", f"flamestream.node.{module}", str(file), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=ENVIRONMENT, pass_fds=fds, cwd=self.folder
            )

    def close(self) -> None:
        """Kill what still runs."""
        for process in [self.coordinator, *self.workers.values()]:
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
        self.listener.close()

    # --- what can be seen -----------------------------------------------------------------------------------

    def status(self) -> JobStatus | None:
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode((self.folder / "status.json").read_bytes(), type=JobStatus)
        return None

    def fresh_status(self) -> JobStatus | None:
        """What the coordinator that runs now has written; None if it has not yet."""
        assert self.coordinator is not None
        assert self.coordinator.poll() is None, (
            f"the coordinator has ended with {self.coordinator.returncode}\n{self.logs()}"
        )
        status = self.status()
        return status if status is not None and status.pid == self.coordinator.pid else None

    def until_running(self, attempt: int = 1) -> JobStatus:
        def running() -> JobStatus | None:
            status = self.fresh_status()
            return (
                status
                if status is not None and status.phase == "running" and status.attempt >= attempt
                else None
            )

        return eventually(running, f"attempt {attempt} runs (logs are in {self.folder})")

    def until_delivered(self, count: int) -> None:
        def delivered() -> bool:
            status = self.fresh_status()
            return status is not None and sum(worker.items_out for worker in status.workers) >= count

        eventually(delivered, f"{count} items delivered")

    def ended(self, *, within: float = 120.0) -> int:
        """The coordinator's exit code, once it and all workers have ended."""
        assert self.coordinator is not None
        try:
            code = self.coordinator.wait(within)
            for process in self.workers.values():
                process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job has not ended within {within:g} s\n{self.logs()}") from None
        return code

    def delivered(self, sink: str = "out") -> list[tuple[bytes, Any]]:
        """Every item that the sink holds, in the total order."""
        return [(meta, payload) for meta, _, _, payload in sinks.read(self.sinks[SinkName(sink)])]

    def logs(self) -> str:
        return "\n".join(
            f"--- {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.folder.glob("*.log"))
        )
