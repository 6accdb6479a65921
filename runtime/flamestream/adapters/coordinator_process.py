"""The coordinator's process: core.coordinator on its ports, and the job's status for people.

`python -m flamestream.adapters.coordinator_process CONFIG.json --fd N`: the launcher keeps the listening socket and passes it as
descriptor N, so a coordinator that is started again has the same address, and workers find it by themselves. SIGTERM and SIGINT stop the
job at once, SIGUSR1 drains it to an epoch; killing this process harms nothing, the stream goes on without it.

Keeps: requests to the job record and to the store are each carried out one at a time, in order; deletions never hold up a commit. Does
not: decide anything (core/coordinator.py), or start workers (the launcher does).
"""

import argparse
import logging
import os
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from flamestream.adapters import process_shell
from flamestream.adapters.control import ControlServer
from flamestream.adapters.lazy_store import LazyStore
from flamestream.adapters.manifests import delete_objects, read_manifest, write_manifest
from flamestream.adapters.reactor import EpollReactor
from flamestream.adapters.record_file import RecordFile
from flamestream.adapters.status_file import JobStatus, LastRecovery, StatusFile, WorkerFigures
from flamestream.core import coordination as co
from flamestream.core.coordinator import Coordinator
from flamestream.core.messages import Hello, Progress, ToCoordinator
from flamestream.model.errors import ClusterStateUnavailable, FlameStreamError, Retryable, UserError
from flamestream.model.ids import LayoutVersion, WorkerId
from flamestream.model.time import timestamp_of
from flamestream.ports import JobRecords, ObjectStore, Reactor, Timer

MAX_DELETIONS: Final = 256
"""Requests to delete that may wait; what is forgotten beyond is an orphan, which costs room and nothing else."""

log = logging.getLogger(__name__)


class CoordinatorProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the coordinator's process is told from outside. Holds the job's token: for its owner's eyes only."""

    settings: co.Settings
    token: str
    records: str
    """zookeeper://host:port[,host:port], or the path of a file."""
    store: str
    status: str
    """Path of status.json."""
    parent: int = 0
    """Pid of the parent, to end with it; 0: don't."""


class Lane:
    """Blocking calls, one at a time, in order."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._busy = False

    def __len__(self) -> int:
        return len(self._waiting)

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Queue `work`; `done` gets what it returned or raised."""
        self._waiting.append((work, done))
        self._next()

    def _next(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            work, done = self._waiting.popleft()
            self._reactor.background(work, lambda result: self._done(result, done))

    def _done(self, result: Any, done: Callable[[Any], None]) -> None:
        self._busy = False
        self._next()
        done(result)


class CoordinatorHost:
    """Between the reactor and the pure coordinator: events of a turn in, actions out."""

    def __init__(
        self, config: CoordinatorProcessConfig, reactor: EpollReactor, records: JobRecords, store: ObjectStore, listener: socket.socket
    ) -> None:
        self._config, self._reactor, self._records, self._store = config, reactor, records, store
        self._coordinator = Coordinator(config.settings, config.token, secrets.token_hex(8))
        self._inbox: list[co.Event] = [co.Woken()]  # the first step asks for the job record
        self._record_lane, self._store_lane, self._deletions = Lane(reactor), Lane(reactor), Lane(reactor)
        self._alarm: Timer | None = None
        self._status = co.Status(phase="starting")
        self._layout = LayoutVersion(0)
        self._figures: dict[WorkerId, Progress] = {}
        self.finish: co.Finish | None = None
        self.server = ControlServer(
            reactor, listener, config.settings.job, config.token,
            on_message=self._from_worker, on_connected=self._connected, on_disconnected=self._disconnected,
        )  # fmt: skip
        self._file = StatusFile(reactor, Path(config.status), self._look)
        self._do: dict[type[Any], Callable[[Any], None]] = {
            co.ReadRecord: self._read_record,
            co.WriteRecord: self._write_record,
            co.WriteManifest: self._write_manifest,
            co.ReadManifest: self._read_manifest,
            co.DeleteObjects: self._delete,
            co.Tell: lambda action: self.server.tell(action.worker, action.message),
            co.Disconnect: self._disconnect,
            co.WakeAt: self._wake_at,
            co.Report: self._report,
            co.Finish: self._finish,
        }

    def turn(self) -> None:
        """The reactor's pass hook."""
        if not self._inbox or self.finish is not None:
            return
        batch, self._inbox = self._inbox, []
        for action in self._coordinator.step(self._reactor.now(), batch):
            self._do[type(action)](action)

    def request(self, what: Literal["stop", "drain"]) -> None:
        """End the job. Safe in a signal handler."""
        self._reactor.soon(lambda: self._inbox.append(co.Requested(what)))

    def close(self) -> None:
        """Every worker hears its last message, and the file shows the end."""
        self.server.close()
        self._file.write()

    # --- workers --------------------------------------------------------------------------------------------------------------------

    def _connected(self, hello: Hello) -> None:
        log.info("worker connected", extra={"worker": hello.worker, "attempt": hello.fence.attempt, "ready": hello.ready})
        self._inbox.append(co.WorkerConnected(hello))

    def _disconnected(self, worker: WorkerId, reason: str) -> None:
        log.info("worker disconnected", extra={"worker": worker, "reason": reason})
        self._figures.pop(worker, None)
        self._inbox.append(co.WorkerDisconnected(worker))

    def _from_worker(self, worker: WorkerId, message: ToCoordinator) -> None:
        if isinstance(message, Progress):
            self._figures[worker] = message
            self._file.changed()
        else:
            log.info("worker says", extra={"worker": worker, "said": type(message).__name__})
        self._inbox.append(co.FromWorker(worker, message))

    def _disconnect(self, action: co.Disconnect) -> None:
        log.warning("worker refused", extra={"worker": action.worker, "reason": action.reason})
        self._figures.pop(action.worker, None)
        self.server.disconnect(action.worker)

    # --- the job record -------------------------------------------------------------------------------------------------------------

    def _read_record(self, _: co.ReadRecord) -> None:
        def done(result: Any) -> None:
            record, version = self._answered(result) or (None, None)
            if record is not None:
                self._layout = record.layout.version
            self._inbox.append(co.RecordRead(record, version))

        self._record_lane.run(self._records.read, lambda result: self._or_unknown(result, done))

    def _write_record(self, action: co.WriteRecord) -> None:
        def done(result: Any) -> None:
            version = self._answered(result)
            if version is not None:
                self._layout = action.record.layout.version
            self._inbox.append(co.RecordConflict() if version is None else co.RecordWritten(version))

        work = lambda: self._records.compare_and_set(action.record, action.version)  # noqa: E731
        self._record_lane.run(work, lambda result: self._or_unknown(result, done))

    def _or_unknown(self, result: Any, done: Callable[[Any], None]) -> None:
        if isinstance(result, ClusterStateUnavailable):
            self._inbox.append(co.RecordUnknown(str(result)))
        else:
            done(result)

    # --- the store ------------------------------------------------------------------------------------------------------------------

    def _write_manifest(self, action: co.WriteManifest) -> None:
        def done(result: Any) -> None:
            if isinstance(result, FlameStreamError):
                self._inbox.append(co.ManifestFailed(action.name, str(result)))
            else:
                self._inbox.append(co.ManifestWritten(action.name, self._answered(result)))

        self._store_lane.run(lambda: write_manifest(self._store, action.name, action.manifest), done)

    def _read_manifest(self, action: co.ReadManifest) -> None:
        def done(result: Any) -> None:
            if isinstance(result, FlameStreamError):
                category = "retryable" if isinstance(result, Retryable) else "corrupt"
                self._inbox.append(co.ManifestBroken(action.name, category, str(result)))
            else:
                self._inbox.append(co.ManifestLoaded(action.name, self._answered(result)))

        self._store_lane.run(lambda: read_manifest(self._store, action.name, action.hash), done)

    def _delete(self, action: co.DeleteObjects) -> None:
        def done(result: Any) -> None:
            left = self._answered(result)
            if left:
                log.warning("objects are left behind", extra={"names": left})

        if len(self._deletions) < MAX_DELETIONS:
            self._deletions.run(lambda: delete_objects(self._store, action.names), done)
        else:
            log.warning("objects are left behind", extra={"names": list(action.names)})

    @staticmethod
    def _answered(result: Any) -> Any:
        """A result; an exception that is no answer ends this process."""
        if isinstance(result, Exception):
            raise result
        return result

    # --- time, status, end ----------------------------------------------------------------------------------------------------------

    def _wake_at(self, action: co.WakeAt) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        seconds = max(0, action.time - self._reactor.now()) / 1_000_000
        self._alarm = self._reactor.later(seconds, lambda: self._inbox.append(co.Woken()))

    def _report(self, action: co.Report) -> None:
        if action.status.phase != self._status.phase or action.status.attempt != self._status.attempt:
            log.info("phase", extra={"phase": action.status.phase, "attempt": action.status.attempt, "cause": action.status.cause})
        self._status = action.status
        self._file.changed()

    def _finish(self, action: co.Finish) -> None:
        log.info("job finished", extra={"outcome": action.outcome, "category": action.category, "message_": action.message})
        self.finish = action
        self._reactor.stop()

    def _look(self) -> JobStatus:
        status, finish = self._status, self.finish or co.Finish("completed")
        recovery = LastRecovery(cause=status.cause, duration_ms=status.duration_us / 1000) if status.cause else None
        return JobStatus(
            job=self._config.settings.job, pid=os.getpid(), updated=self._reactor.now(), phase=status.phase,
            attempt=status.attempt, layout=self._layout, epoch=status.epoch, cut=status.cut, cut_time=timestamp_of(status.cut),
            workers=[self._figures_of(worker) for worker in status.workers], standbys=list(status.standbys),
            recoveries=status.recoveries, last_recovery=recovery, problems=list(status.problems),
            dropped_connections=self.server.acceptor.dropped, outcome=finish.outcome if self.finish else "",
            category=finish.category, message=finish.message,
        )  # fmt: skip

    def _figures_of(self, worker: WorkerId) -> WorkerFigures:
        said = self._figures.get(worker)
        if said is None:
            return WorkerFigures(worker=worker, connected=True)
        return WorkerFigures(
            worker=worker, connected=True, items_in=said.items_in, items_out=said.items_out,
            minimal=timestamp_of(said.minimal), settled=timestamp_of(said.settled), problem=said.problem,
        )  # fmt: skip


def records_from(url: str, job: str) -> JobRecords:
    """The job record's home."""
    if url.startswith("zookeeper://"):
        from flamestream.adapters.zookeeper import ClusterState, ZooKeeperJobRecords  # lazily: not every job needs kazoo

        return ZooKeeperJobRecords(ClusterState(url.removeprefix("zookeeper://")), job)
    if "://" in url:
        raise UserError(f"records {url!r} has an unknown scheme: use zookeeper://host:port or the path of a file")
    return RecordFile(Path(url))


def run(config: CoordinatorProcessConfig, listener: socket.socket) -> int:
    """Coordinate until the job ends. The exit code."""
    process_shell.begin(config.parent, job=config.settings.job, role="coordinator")
    reactor = EpollReactor()
    try:
        host = CoordinatorHost(config, reactor, records_from(config.records, config.settings.job), LazyStore(config.store), listener)
    except FlameStreamError as error:
        return process_shell.ended_by(error)
    _obey_signals(host)
    reactor.soon(lambda: None)
    try:
        reactor.run(host.turn)
    except FlameStreamError as error:  # the job record is damaged, or not ours: nothing can be decided any more
        process_shell.ended_by(error)
        host.finish = co.Finish("failed", error.category, str(error))
    host.close()
    reactor.close()
    assert host.finish is not None, "the loop ends by Finish"
    return process_shell.EXIT_CODES["fenced" if host.finish.outcome == "fenced" else host.finish.category]


def _obey_signals(host: CoordinatorHost) -> None:
    signal.signal(signal.SIGTERM, lambda *_: host.request("stop"))
    signal.signal(signal.SIGINT, lambda *_: host.request("stop"))
    signal.signal(signal.SIGUSR1, lambda *_: host.request("drain"))


def main(arguments: list[str]) -> int:
    """`python -m flamestream.adapters.coordinator_process CONFIG.json --fd N`"""
    sys.excepthook = process_shell.uncaught
    parser = argparse.ArgumentParser(prog="coordinator_process", description="The coordinator of one job.")
    parser.add_argument("config")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the listening socket")
    parsed = parser.parse_args(arguments)
    try:
        config = process_shell.read_config(CoordinatorProcessConfig, parsed.config)
    except FlameStreamError as error:
        return process_shell.ended_by(error)
    return run(config, socket.socket(fileno=parsed.fd))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
