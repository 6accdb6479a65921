"""The launcher: everything that one machine needs to run a job, started, watched and ended together.

It starts an embedded ZooKeeper, claims the job there, keeps the socket that the coordinator listens on, and
starts the coordinator and the workers. What dies is started again: the coordinator on the same socket, so
nobody has to be told; workers by Spark. The job's end is what the coordinator has written in status.json, the
end of the launcher is the job's.

Keeps: what it started ends with it, however it ends. Does not: decide anything about the job
(core/coordinator/coordinator.py does), or see its data.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from flamestream.core.coordinator.changes.upgrade import MOST_ASKED
from flamestream.core.coordinator.coordination import Settings
from flamestream.core.coordinator.scaling import wanted_by
from flamestream.core.protocol.job_record import is_taken_over
from flamestream.job.application import folders_of
from flamestream.job.exit_codes import AlreadyRunning
from flamestream.job.settings import local_coordinator
from flamestream.job.validation import CheckedJob
from flamestream.local import lineage
from flamestream.local.starting import may_start, unread, workers_at_first
from flamestream.local.workers import PlainWorkers, SparkWorkers, Workers, watch_process
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.parent_death import start_child
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.machine.process_shell import read_config
from flamestream.model.backoff import Backoff
from flamestream.model.errors import (
    ClusterStateUnavailable,
    FlameStreamError,
    ManifestError,
    StoreUnavailable,
    UserError,
)
from flamestream.net.acceptor import address_of, listen
from flamestream.node import upgrade_request
from flamestream.node.coordinator_process import CoordinatorProcessConfig
from flamestream.node.kept_code import keep
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.node.upgrade_request import HandOverRequest, UpgradeRequest
from flamestream.node.worker_config import worker_config
from flamestream.store.places import store_from
from flamestream.store.zookeeper import ClusterState, SingleInstance, ZooKeeperJobRecords
from flamestream.store.zookeeper_server import EmbeddedZooKeeper

LOOK: Final = 0.25
"""Seconds between two looks at what nobody reports: ZooKeeper's process, progress."""
AGAIN: Final = Backoff(0.05, 2.0)
CALM: Final = 10.0
"""Seconds after which a coordinator that lives makes earlier deaths forgotten."""
WORKERS_END_WITHIN: Final = 10.0
LOGS_KEPT: Final = 10

Request = Literal["stop", "drain"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job: completed, drained, stopped or failed; or "killed", if it was asked twice to stop."""

    outcome: str
    category: str = ""
    message: str = ""


class Launcher:
    """A run of a job. `look` is called every LOOK seconds, for progress; `say` gets what people should know.
    Only in the main thread.

    `changed`: the application may be another than that of the last run.
    """

    def __init__(
        self, checked: CheckedJob, folder: RunFolder, *, say: Callable[[str], None], look: Callable[[], None],
        spark: bool = True, changed: bool = False,
    ) -> None:  # fmt: skip
        self._checked, self._folder, self._spark, self._look, self._say = (
            checked,
            folder.made(),
            spark,
            look,
            say,
        )
        self._changed, self._claimed_store = changed, False
        self._reactor = EpollReactor()
        self._token = secrets.token_hex(32)
        self._listener = listen("127.0.0.1")
        self._address = address_of(self._listener)
        self._request: Request | None = None
        self._outcome: Outcome | None = None
        self._workers: Workers | None = None
        self._coordinator: subprocess.Popen[bytes] | None = None
        self._upgrades: dict[int, Settings | None] = {}
        """Settings that the coordinator was asked to go on with, by numbers from 1."""
        self._hand_over = ""
        """The job that is to go on where this one ends."""
        self._refused = ""
        """The reason why workers of the newest upgrade could not be started."""
        self._worker_file = self._folder.path / "worker.json"
        self._manifest = str(Path(checked.job.document.file).absolute())
        self._starts = self._deaths = 0
        self._wanted = checked.job.spec.workers.least
        """The workers that take part, as far as there is work for them."""
        self._told = (0, 0)
        """The pids in run.json that change without our doing: ZooKeeper's and Spark's."""

    def run(self) -> Outcome:
        """Run until the job ends. Raises AlreadyRunning, UserError if it may not start,
        ClusterStateUnavailable without ZooKeeper."""
        with EmbeddedZooKeeper(self._folder.zookeeper) as zookeeper, ClusterState(zookeeper.access) as state:
            claim = _claimed(state, self._checked.job.identity)
            self._zookeeper = zookeeper
            try:
                records = ZooKeeperJobRecords(state, self._checked.job.identity)
                record = may_start(self._checked, self._folder, records, changed=self._changed)
                self._changed |= record is not None and is_taken_over(record)
                self._wanted = workers_at_first(self._checked, record)
                if record is not None and record.outcome == "completed":
                    message = unread(self._checked, record)
                    self._outcome = Outcome("completed", "user" if message else "", message)
                else:
                    self._begin()
                    self._reactor.run(lambda: None)
            finally:
                self._end()
            self._let_go_of_the_store(records)
            _release(claim)
        assert self._outcome is not None, "the loop ends with an outcome"
        return self._outcome

    def request(self, what: Request) -> None:
        """End the job: at once, or at an epoch. Asked for a second time: without waiting for anybody. Safe in
        a signal handler."""
        self._reactor.soon(lambda: self._requested(what))

    def upgrade(self) -> None:
        """Do as upgrade.json says: go on with another application, or hand over. Safe in a signal handler."""
        self._reactor.soon(self._upgrade)

    # --- begin and end --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._create_store(self._checked.job.store)
        # Else `status` would show the end of the run before, until a coordinator has written.
        self._folder.status_file.unlink(missing_ok=True)
        self._settings = local_coordinator(self._checked, changed=self._changed)
        """Those that the job begins with."""
        self._start_coordinator()
        keep(self._folder.code, self._checked.application, self._checked.code, self._checked.py_files)
        self._config = worker_config(
            self._checked, coordinator=self._address, token=self._token, zookeeper=self._zookeeper.access,
            kept=str(self._folder.code),
        )  # fmt: skip
        spec = self._checked.job.spec
        most = spec.workers.most + spec.workers.standby
        path = (self._checked.application.parent, *folders_of(self._checked.py_files))
        if self._spark:
            self._workers = SparkWorkers(
                self._reactor, spec.spark, most, self._folder.path, path, self._workers_ended
            )
        else:
            self._workers = PlainWorkers(
                self._reactor, self._folder.path, spec.workers.standby, self._workers_ended
            )
        self._worker_file = self._folder.write("worker.json", self._config)
        self._files = {self._checked.code: self._worker_file}
        """The file with what workers of each application are told, by its digest."""
        self._start_workers(self._wanted + spec.workers.standby, self._worker_file, self._settings)
        self._write_info()
        self._reactor.later(LOOK, self._regularly)

    def _end(self) -> None:
        if self._coordinator is not None and self._coordinator.poll() is None:
            self._coordinator.kill()
            self._coordinator.wait()
        if self._workers is not None:
            self._workers.stop()
        self._listener.close()
        self._reactor.close()

    def _regularly(self) -> None:
        """Look at what nobody reports: ZooKeeper's process, Spark's pid, progress; and at how many workers the
        coordinator wants."""
        if self._zookeeper.ensure_running():
            self._say("ZooKeeper had ended and was started again")
        if self._workers is not None and (self._zookeeper.pid, self._workers.driver) != self._told:
            self._write_info()
        self._scale()
        self._look()
        self._reactor.later(LOOK, self._regularly)

    # --- how many workers -----------------------------------------------------------------------------------

    def _start_workers(self, count: int, file: Path, settings: Settings) -> None:
        """Start workers that are told what is in `file`: one by one where some may end before others."""
        assert self._workers is not None, "they are made before"
        if settings.most_workers is None:
            self._workers.start(count, file)
        else:
            for _ in range(count):
                self._workers.start(1, file)

    def _settings_of(self, code: str) -> Settings:
        """The settings that came with an application: of two upgrades to it, with the newer one."""
        asked = [each for each in self._upgrades.values() if each is not None and each.code == code]
        return asked[-1] if asked else self._settings

    def _scale(self) -> None:
        """Start workers that are wanted; those that are not any more are told to stop by the coordinator."""
        status = self._folder.status()
        if self._workers is None or self._outcome is not None:
            return
        if status is None or self._coordinator is None or status.pid != self._coordinator.pid:
            return  # told by one that is gone
        settings = self._settings_of(status.code)  # an upgrade may be under way, or taken back
        if settings.most_workers is None:
            return
        if status.wanted and status.wanted != self._wanted:
            more = "more" if status.wanted > self._wanted else "fewer"
            self._say(f"{more} workers: {status.wanted} instead of {self._wanted}")
            self._wanted = status.wanted
        file = self._files.get(status.code, self._worker_file)
        there = self._workers.running(file)
        self._start_workers(max(0, self._wanted + (settings.standbys or 0) - there), file, settings)

    # --- an upgrade -----------------------------------------------------------------------------------------

    def _upgrade(self) -> None:
        """Start the workers of another application, and ask the coordinator to go on with it."""
        if self._outcome is not None or self._workers is None:
            return
        request = read_config(UpgradeRequest | HandOverRequest, str(self._folder.path / upgrade_request.FILE))
        if isinstance(request, HandOverRequest):
            self._hand_over = request.to
            self._tell_coordinator()
        else:
            self._upgrade_to(request)

    def _upgrade_to(self, request: UpgradeRequest) -> None:
        assert self._workers is not None, "the job runs"
        number = max(self._upgrades, default=0) + 1
        settings, self._refused = request.settings, ""
        # Those of one that was refused were stopped.
        if settings is not None and not self._runs(settings.code):
            config = msgspec.structs.replace(
                request.worker, coordinator=self._address, token=self._token, journal=self._config.journal
            )
            self._worker_file = self._folder.write(f"worker-{number % LOGS_KEPT}.json", config)
            self._files[settings.code] = self._worker_file
            while len(self._files) > LOGS_KEPT:
                del self._files[next(iter(self._files))]
            count = max(request.count, wanted_by(settings, self._wanted) + (settings.standbys or 0))
            self._start_workers(count, self._worker_file, settings)
            self._manifest = request.manifest
        self._upgrades[number] = settings
        while len(self._upgrades) > MOST_ASKED:
            del self._upgrades[min(self._upgrades)]
        self._tell_coordinator()
        self._write_info()

    def _runs(self, code: str) -> bool:
        """Whether workers of an application are there."""
        file = self._files.get(code)
        return file is not None and self._workers is not None and self._workers.running(file) > 0

    def _tell_coordinator(self) -> None:
        """Have the coordinator read its configuration again, once it listens."""
        self._folder.write("coordinator.json", self._coordinator_config())
        self._signal(signal.SIGUSR2, self._tell_coordinator)

    # --- the coordinator ------------------------------------------------------------------------------------

    def _start_coordinator(self) -> None:
        config = self._coordinator_config()
        file, fd = self._folder.write("coordinator.json", config), self._listener.fileno()
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "flamestream.node.coordinator_process",
            file,
            "--fd",
            str(fd),
        ]
        output = self._folder.logs / f"coordinator-{self._starts % LOGS_KEPT}.log"
        # The socket is ours and outlives it: its successor listens at the same address, and nobody has to be
        # told.
        self._coordinator = process = start_child(command, output, os.environ, pass_fds=(fd,))
        self._starts += 1
        watch_process(self._reactor, process, lambda code: self._coordinator_ended(process.pid, code))
        calm = self._starts
        self._reactor.later(CALM, lambda: self._forget_deaths(calm))
        if self._workers is not None:
            self._write_info()
        self._pass_request_on()

    def _coordinator_config(self) -> CoordinatorProcessConfig:
        return CoordinatorProcessConfig(
            settings=replace(self._settings, workers=self._wanted),
            token=self._token,
            zookeeper=self._zookeeper.access,
            store=self._checked.job.store,
            status=str(self._folder.status_file),
            upgrades=self._upgrades,
            hand_over=self._hand_over,
        )

    def _forget_deaths(self, start: int) -> None:
        if start == self._starts:
            self._deaths = 0

    def _coordinator_ended(self, pid: int, code: int) -> None:
        status = self._folder.status()
        if status is not None and status.pid == pid and status.outcome not in ("", "fenced"):
            self._finish(
                Outcome(status.outcome, status.category, status.message),
                anyone_told=bool(status.workers or status.standbys),
            )
            return
        self._say(
            f"the coordinator (pid {pid}) ended with code {code} and is started again; "
            "the stream goes on meanwhile"
        )
        self._deaths += 1
        self._reactor.later(AGAIN.after(self._deaths), self._start_coordinator)

    def _requested(self, what: Request) -> None:
        if self._request is None:
            self._request = what
            self._pass_request_on()
        elif self._outcome is None:
            self._outcome = Outcome("killed")
            self._reactor.stop()

    def _pass_request_on(self) -> None:
        """Pass a request on to the coordinator; the successor of one that dies is told again."""
        if self._request is not None:
            number = signal.SIGTERM if self._request == "stop" else signal.SIGUSR1
            self._signal(number, self._pass_request_on)

    def _signal(self, number: int, again: Callable[[], None]) -> None:
        """Send the coordinator a signal, once it has shown that it listens: before, it is asked `again`."""
        if self._outcome is not None or self._coordinator is None or self._coordinator.poll() is not None:
            return
        status, pid = self._folder.status(), self._coordinator.pid
        # Before it has written its status it may have no handlers yet, and the signal would kill it.
        if status is not None and status.pid == pid:
            os.kill(pid, number)
        else:
            self._reactor.later(AGAIN.first, again)

    # --- the workers, and the end ---------------------------------------------------------------------------

    def _workers_ended(self, problem: FlameStreamError | None) -> None:
        if self._outcome is not None:
            self._reactor.stop()
        elif isinstance(problem, ManifestError):
            self._refused = str(problem)
            self._write_info()
        elif problem is not None:
            self._outcome = Outcome("failed", problem.category, str(problem))
            self._reactor.stop()
        else:
            self._workers = None  # told to stop before we have heard of the job's end: that comes next

    def _finish(self, outcome: Outcome, anyone_told: bool) -> None:
        self._outcome = outcome
        # Nobody was there to be told to stop, so nobody's end would come.
        if self._workers is None or not anyone_told:
            self._reactor.stop()
        else:
            self._reactor.later(WORKERS_END_WITHIN, self._reactor.stop)

    def _write_info(self) -> None:
        assert self._coordinator is not None, "the coordinator is started first"
        info = RunInfo(
            job=self._checked.job.name,
            manifest=self._manifest,
            config=self._worker_file.name,
            refused=self._refused,
            launcher=ProcessIdentity.of_this_process(),
            address=self._address,
            coordinator=self._coordinator.pid,
            zookeeper=self._zookeeper.pid,
            driver=self._workers.driver if self._workers is not None else 0,
        )
        self._folder.write("run.json", info)
        self._told = (info.zookeeper, info.driver)

    def _create_store(self, url: str) -> None:
        """Claim the store. A folder that is missing is made; a store that belongs to another run folder is
        refused.

        A store that is away now may come back: the stream goes on without epochs until then.
        """
        try:
            self._claimed_store = lineage.claim(
                store_from(url, create=True), self._folder, self._checked.job.name, url
            )
        except StoreUnavailable as error:
            self._say(f"no epochs for now: {error}")

    def _let_go_of_the_store(self, records: ZooKeeperJobRecords) -> None:
        """Give up the claim of a first run that failed before it had saved anything: its author may choose
        another name or store."""
        assert self._outcome is not None, "asked at the end"
        if self._claimed_store and self._outcome.outcome == "failed":
            with suppress(StoreUnavailable, ClusterStateUnavailable):
                found = records.read()
                if found is None or not found[0].committed:
                    store_from(self._checked.job.store).delete(lineage.NAME)


def _claimed(state: ClusterState, job: str) -> SingleInstance:
    claim = SingleInstance(state, job)
    try:
        claim.claim()
    except UserError as error:
        raise AlreadyRunning(str(error)) from error
    return claim


def _release(claim: SingleInstance) -> None:
    with suppress(ClusterStateUnavailable):  # then it ends with its session
        claim.release()
