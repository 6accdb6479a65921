"""The last commit of a job, for an audit: the job record, and the index that it names.

    job record -> index -> held output

An audit reads this before it reads any sink: everything below the cut was acknowledged before the commit, so
it must be there. Under `exactly-once-2pc` the output that the index holds leaves behind the commit, and
need not be there yet.

The record of a job that does not run is read from a copy of the run folder's ZooKeeper: a start at the same
moment finds its own free.

Keeps: a commit is read whole; an index that is missing or damaged is an error that names it, never "nothing
is committed". Does not: change anything, or say what is due (audit.py).
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import msgspec

from flamestream.core.dataflow.held_outputs import bundle_in
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import FrontPosition, SnapshotIndex
from flamestream.model.errors import Corrupt, Retryable, UserError
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch
from flamestream.model.payload import split_items
from flamestream.model.tables.ledger import completed, folded
from flamestream.model.time import START, FrontId, Time
from flamestream.node.queries.committed import NOTHING, states_in
from flamestream.node.run_folder import RunFolder
from flamestream.ports import JobRecords, ObjectStore
from flamestream.store.places import store_from
from flamestream.store.segment import chains_in, part_of
from flamestream.store.snapshot_index import index_of, read_index
from flamestream.store.snapshots import segment_table
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess
from flamestream.store.zookeeper_server import EmbeddedZooKeeper

T = TypeVar("T")
LOOKS: Final = 20
"""How often something is read that a newer commit has removed meanwhile."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The savepoint that a restored job has begun with."""

    name: str
    store: str
    index: SnapshotIndex

    @property
    def cut(self) -> Time:
        return self.index.cut

    def state(self, graph: Graph) -> dict[tuple[int, bytes], Any]:
        """The state of each key at the cut, for the reference interpreter."""
        return completed(graph, folded(graph, states_in(graph, self.index, store_from(self.store)), NOTHING))


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last commit: all that must hold of a job now."""

    record: JobRecord | None
    """None: no attempt has ever begun."""
    index: SnapshotIndex | None = None
    held: frozenset[bytes] = frozenset()
    """Metas of the output that the index holds."""
    outcome: str = ""
    """The job's end, as its coordinator has told: completed, drained, stopped or failed; "": it may
    run."""
    savepoint: Savepoint | None = None
    """The savepoint that it was restored from."""
    written: int = 0
    """When the job record was written last, by ZooKeeper's clock: microseconds since 1970; 0: nobody has said."""

    @property
    def completed(self) -> bool:
        """All input is through, and all output is with its consumers."""
        return self.outcome == "completed" or (self.record is not None and self.record.outcome == "completed")

    @property
    def epoch(self) -> Epoch:
        """0: none is committed."""
        return self.record.committed if self.record is not None else Epoch(0)

    @property
    def cut(self) -> Time:
        """Below it everything is delivered, but for `held`."""
        return self.record.cut if self.record is not None else START

    def position(self, front: FrontId) -> FrontPosition | None:
        """The position of a front at the cut; None if nothing says it."""
        return (
            None
            if self.index is None
            else next((each for each in self.index.fronts if each.front == front), None)
        )


@contextmanager
def cluster_state_of(folder: RunFolder) -> Iterator[ZooKeeperAccess]:
    """A ZooKeeper with what the job of this run folder keeps there; NOWHERE if none was ever begun."""
    if not (folder.zookeeper / "data").exists():
        yield NOWHERE
    elif _is_served(folder.zookeeper):
        with EmbeddedZooKeeper(folder.zookeeper) as zookeeper:
            yield zookeeper.access
    else:
        # a copy (!): a start finds its own free
        with TemporaryDirectory(prefix="flamestream-audit-") as place:
            shutil.copytree(folder.zookeeper / "data", Path(place) / "data")
            with suppress(FileNotFoundError):  # made before there were any
                shutil.copy(folder.zookeeper / "login", place)
            with EmbeddedZooKeeper(Path(place)) as zookeeper:
                yield zookeeper.access


def committed_here(folder: RunFolder, zookeeper: ZooKeeperAccess, job: str, store: str) -> LastCommit:
    """The last commit of a job of this machine. `zookeeper`: as `cluster_state_of` gives it; `store`: the
    checkpoint store's URL. Raises UserError if the job has never run, Corrupt if the record is not there, or older
    than what was told of it."""
    told = folder.status()  # before the record, which can then only be newer
    outcome, epoch = (told.outcome, told.epoch) if told else ("", 0)
    last = LastCommit(None, outcome=outcome)
    if zookeeper != NOWHERE:
        with ClusterState(zookeeper) as state:
            last = _dated(ZooKeeperJobRecords(state, job), store, outcome)
    if told is None and last.record is None:
        raise UserError(
            f"job {job!r} has not run here: nothing is said of it in {folder.path}. Run it first, or name the folder "
            "that it ran in (--run-folder)"
        )
    # (!) An older record would have the audit ask for less than was promised.
    if last.epoch < epoch:
        raise Corrupt(
            f"{folder.status_file} tells of epoch {epoch}, and the job record in {folder.zookeeper} of "
            f"{last.epoch or 'none'}: it was "
            "lost, or put back. Restore it, or nobody can say what had to be delivered"
        )
    return last


def committed_there(zookeeper: ZooKeeperAccess, job: str, store: str, restored_from: str = "") -> LastCommit:
    """The last commit of a job of a cluster, from its ZooKeeper. `restored_from`: the FlameStreamSnapshot
    that it may have begun with."""
    with ClusterState(zookeeper) as state:
        found = _dated(ZooKeeperJobRecords(state, job), store)
    savepoint = savepoint_named(restored_from, store) if restored_from else None
    return replace(found, savepoint=savepoint)


def _dated(records: ZooKeeperJobRecords, store: str, outcome: str = "") -> LastCommit:
    """The last commit, and a moment at which it stood."""
    found = read_commit(records, store, outcome)
    # Behind it (!): a commit that came meanwhile makes the moment later, and it still bounds this one.
    return replace(found, written=records.moment())


def read_commit(records: JobRecords, store: str, outcome: str = "") -> LastCommit:
    """Raises Corrupt if what the record names is not there or not whole, Retryable while epochs are committed
    faster than they are read."""

    def look() -> LastCommit:
        found = records.read()
        return LastCommit(None if found is None else found[0], outcome=outcome)

    def whole(last: LastCommit) -> LastCommit:
        if last.record is None or not last.record.index:
            return last
        objects = store_from(store)
        index = read_index(objects, last.record.index, last.record.index_hash)
        return replace(last, index=index, held=_held(index, objects))

    return of_newest(look, whole)


def of_newest(look: Callable[[], LastCommit], read: Callable[[LastCommit], T]) -> T:
    """Read what the newest commit names, while the job may run. Raises as both do, and Retryable while epochs are
    committed faster than it reads."""
    last = look()
    for _ in range(LOOKS):
        try:
            return read(last)
        except Corrupt:
            # A newer commit removes what the one before named: only what the newest one names can be lost (!).
            newer = look()
            if newer.record is None or last.record is None or newer.record.index == last.record.index:
                raise
            last = newer
    raise Retryable(
        "epochs are committed faster than their indexes and segments can be read: try again, or pause the job"
    )


def savepoint_named(snapshot: str, store: str) -> Savepoint:
    """The savepoint of a FlameStreamSnapshot, in the store that the restored job has too. Raises UserError if
    it is not there any more."""
    objects = store_from(store)
    pattern = re.compile(rf"savepoints/[^/]+/{re.escape(snapshot)}-[0-9a-f]{{8}}/index\.json")
    found = [name for name in objects.names("savepoints/") if pattern.fullmatch(name)]
    if len(found) != 1:
        raise UserError(
            f"spec.restoreFrom: {store} has {len(found)} savepoints of FlameStreamSnapshot {snapshot!r}, and "
            "what entered before it is "
            "known from its state alone. Keep a snapshot, in the store of the jobs that begin with it, as "
            "long as they are to be audited"
        )
    try:
        return Savepoint(snapshot, store, index_of(objects.get(found[0])))
    except msgspec.DecodeError as error:
        raise Corrupt(f"{found[0]} in {store} is not an index: {error}; restore it from a backup") from error


def _held(index: SnapshotIndex, store: ObjectStore) -> frozenset[bytes]:
    chains = chains_in([part_of(segment_table(store, ref)) for ref in index.held])
    return frozenset(meta for chain in chains for meta, _ in split_items(bundle_in(chain).items))


def _is_served(folder: Path) -> bool:
    """Whether a process holds the folder's lock, as far as can be seen from here. Nobody is hindered by the
    look."""
    try:
        # Linux writes `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`: the inode is 131.
        lock = f":{os.stat(folder / 'lock').st_ino} "
        return any(
            lock in line and "FLOCK" in line
            for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines()
        )
    except FileNotFoundError:
        return False
