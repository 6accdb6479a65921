"""ZooKeeper as the leader uses it: one session for all jobs, made when it is first needed and again as long
as that fails.

Keeps: an operator starts and lives without ZooKeeper, and with a login that has no right there; a call fails
then (ClusterStateUnavailable) and the coordinator tries again: no job ends for it. Nothing is read of a job
whose nodes are not its own yet. Does not: read or write a record itself
(runtime/flamestream/store/zookeeper.py), or say whose a node is (zookeeper_rights.py).
"""

import threading
from dataclasses import dataclass
from typing import Final

from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_leave import ZooKeeperLeave
from flamestream.store.zookeeper_rights import Rights
from flamestream_operator.objects.logins import login_of

CONNECT_WITHIN: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeper:
    """How the operator reaches it, and what it has there."""

    access: ZooKeeperAccess
    journal_room: int = 0
    """Bytes of a job's journal there; 0: no bound."""
    alone: bool = False
    """Nobody else uses it."""


class SharedClusterState:
    """The cluster's state in ZooKeeper, over one connection. Calls block; for helper threads."""

    def __init__(self, place: ZooKeeper) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._state: ClusterState | None = None
        self._rights: Rights | None = None

    def records(self, job: str) -> "LazyRecords":
        """The record of a job."""
        return LazyRecords(self, job)

    def leave(self, job: str) -> ZooKeeperLeave:
        """The leave of a job for one of another cluster. Raises ClusterStateUnavailable."""
        return ZooKeeperLeave(self.connected()[0], job)

    def delete(self, job: str, *, record: bool = True) -> None:
        """Everything that is kept there of a job, or all but its record. Absent is fine."""
        state, rights = self.connected()
        state.delete(job, record=record)
        rights.forget(job)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._state is not None:
                self._state.close()
                self._state = self._rights = None

    def connected(self) -> tuple[ClusterState, Rights]:
        """The session, and what it may give. Raises ClusterStateUnavailable."""
        # Also while it connects: several helper threads come at once, and would each open a session.
        with self._lock:
            if self._state is None:
                self._state = ClusterState(
                    self._place.access, connect_within=CONNECT_WITHIN, refused=ClusterStateUnavailable
                )
            # Apart from the session: where ZooKeeper refuses to give them, the next call asks again on the
            # same one.
            if self._rights is None:
                login, room, alone = self._place.access.login, self._place.journal_room, self._place.alone
                rights = Rights(self._state, login, lambda job: login_of(job, login), room=room, alone=alone)
                rights.take()
                self._rights = rights
            return self._state, self._rights


class LazyRecords:
    """`ports.JobRecords` of one job."""

    def __init__(self, shared: SharedClusterState, job: str) -> None:
        self._shared, self._job = shared, job
        self._prepared: tuple[ClusterState, ZooKeeperJobRecords] | None = None
        """The session, and the record by it, once it is there: a proof of the job's login each time would be most of
        what a write costs here."""

    def read(self) -> tuple[JobRecord, int] | None:
        return self._records().read()

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        return self._records().compare_and_set(record, version)

    def _records(self) -> ZooKeeperJobRecords:
        state, rights = self._shared.connected()
        known = self._prepared
        if known is None or known[0] is not state:
            rights.prepare(self._job)
            known = state, ZooKeeperJobRecords(state, self._job, rights.of_record(self._job))
            self._prepared = known
        return known[1]
