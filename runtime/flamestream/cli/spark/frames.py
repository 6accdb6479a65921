"""Jobs as DataFrames from the command line: a Spark for one, and an attempt of its own.

The attempt comes from the job record, in the same cluster state as the streaming runner's: so a batch fences
a stream that still runs, and the other way round.

Keeps: one runner of a job at a time in a run folder (the launcher's claim). Does not: compute anything
(spark/).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from flamestream.audit.begun import begun
from flamestream.core.protocol.inventory import timed_by
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.job.application import folders_of
from flamestream.job.exit_codes import AlreadyRunning
from flamestream.job.settings import inventory
from flamestream.job.status import JobStatus
from flamestream.job.validation import CheckedJob
from flamestream.local import lineage
from flamestream.local.starting import may_start
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.errors import ClusterStateUnavailable, UserError
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START, timestamp_of
from flamestream.node.kept_code import keep
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.spark.frames.session import frames_settings
from flamestream.spark.streaming.session import SparkDriver
from flamestream.store.places import store_from
from flamestream.store.zookeeper import ClusterState, SingleInstance, ZooKeeperJobRecords
from flamestream.store.zookeeper_server import EmbeddedZooKeeper


@dataclass(slots=True)
class Records:
    """The job record of a claimed job."""

    records: ZooKeeperJobRecords
    record: JobRecord
    version: int

    def read(self) -> JobRecord | None:
        """As it stands now."""
        found = self.records.read()
        return None if found is None else found[0]

    def write(self, record: JobRecord) -> None:
        """Compare-and-set. Raises AlreadyRunning if somebody else has written."""
        version = self.records.compare_and_set(record, self.version)
        if version is None:
            raise AlreadyRunning(f"job {record.job!r}: another runner has taken over while this one worked")
        self.record, self.version = record, version


@contextmanager
def spark_for(checked: CheckedJob, folder: RunFolder) -> Iterator[SparkDriver]:
    """A Spark that starts. Only in the main thread, and where nobody else's is (!): what that one has in its folder
    would go. So a job is claimed before."""
    asked = checked.job.spec.spark
    settings = frames_settings(
        cores=checked.job.spec.workers.least, scratch=folder.path / "spark", master=asked.master or "",
        conf=asked.conf, python_path=(checked.application.parent, *folders_of(checked.py_files)),
        name=f"flamestream {checked.job.name}",
    )  # fmt: skip
    with SparkDriver(settings) as driver:
        yield driver


@contextmanager
def attempt_of(
    checked: CheckedJob, folder: RunFolder, *, changed: bool, takes_history: bool = True
) -> Iterator[Records]:
    """The job claimed, and its record with the next attempt. Raises AlreadyRunning, UserError if it may not start so
    (starting.py), or began with a history that the runner does not take."""
    with EmbeddedZooKeeper(folder.zookeeper) as zookeeper, ClusterState(zookeeper.access) as state:
        claim = SingleInstance(state, checked.job.identity)
        try:
            claim.claim()
        except UserError as error:
            raise AlreadyRunning(str(error)) from error
        manifest, me = (
            str(checked.job.path(checked.job.document.file).absolute()),
            ProcessIdentity.of_this_process(),
        )
        info = RunInfo(
            job=checked.job.name, manifest=manifest, launcher=me, address="", zookeeper=zookeeper.pid
        )
        records = ZooKeeperJobRecords(state, checked.job.identity)
        # behind the claim: nobody else changes what it reads
        may_start(checked, folder, records, changed=changed)
        if not takes_history and begun(folder) is not None:
            raise UserError(
                f"job {checked.job.name!r} began with a history, whose state no batch has: run it as a stream, or "
                "with --runner micro-batch"
            )
        lineage.claim(store_from(checked.job.store, create=True), folder, checked.job.name, checked.job.store)
        folder.write("run.json", info)
        # for an audit, once it is another
        keep(folder.code, checked.application, checked.code, checked.py_files)
        yield _next_attempt(records, checked)
        with suppress(ClusterStateUnavailable):  # then it ends with its session
            claim.release()


def _next_attempt(records: ZooKeeperJobRecords, checked: CheckedJob) -> Records:
    found = records.read()
    name = WorkerId("batch")
    slots, fronts = checked.job.spec.workers.slots, len(checked.graph.sources)
    # The same version each time: a fence compares attempts first, and this one is greater.
    layout = Layout(version=LayoutVersion(1), owners=(name,) * slots, fronts=(name,) * fronts, acker=name)
    if found is None:
        ours = inventory(checked)
        record = JobRecord(
            attempt=Attempt(1), layout=layout, announced=Epoch(0), committed=Epoch(0), cut=START, index="",
            index_hash="", job=checked.job.identity, code=checked.code,
            fronts=timed_by(ours, map(KnownFront, ours.fronts)),
        )  # fmt: skip
        version = None
    else:
        before, version = found
        record = msgspec.structs.replace(
            before, attempt=Attempt(before.attempt + 1), layout=layout, code=checked.code, outcome=""
        )
    written = records.compare_and_set(record, version)
    if written is None:
        raise AlreadyRunning(f"job {checked.job.name!r}: another runner has taken it at this moment")
    return Records(records, record, written)


def write_status(
    folder: RunFolder, job: str, record: JobRecord, delivered: int, outcome: str, message: str = "",
    epoch: int = 0,
) -> None:  # fmt: skip
    """Write the status that `status` and `audit` read. `delivered`: results of this attempt; `epoch`: the committed
    one, of a job that commits any."""
    status = JobStatus(
        job=job, pid=ProcessIdentity.of_this_process().pid, updated=time.time_ns() // 1_000, phase="batch",
        code=record.code, attempt=record.attempt, epoch=epoch, cut=record.cut,
        cut_time=timestamp_of(record.cut), items_out=delivered,
        outcome=outcome, category="user" if outcome == "failed" else "", message=message,
    )  # fmt: skip
    folder.write(folder.status_file.name, status)
