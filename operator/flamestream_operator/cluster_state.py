"""ZooKeeper as the leader uses it: one session for all jobs, made when it is first needed and again as long as that fails.

Keeps: an operator starts and lives without ZooKeeper; a call fails then (ClusterStateUnavailable) and the coordinator tries again. Does
not: read or write a record itself (runtime/flamestream/adapters/zookeeper.py).
"""

import threading
from typing import Final

from flamestream.adapters.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.core.job_record import JobRecord

CONNECT_WITHIN: Final = 3.0


class SharedClusterState:
    """Its calls block; for helper threads."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._state: ClusterState | None = None

    def records(self, job: str) -> "LazyRecords":
        """The record of a job."""
        return LazyRecords(self, job)

    def delete(self, job: str, *, record: bool = True) -> None:
        """Everything that is kept there of a job, or all but its record. Absent is fine."""
        self.state().delete(job, record=record)

    def state(self) -> ClusterState:
        """The session. Raises ClusterStateUnavailable."""
        with self._lock:
            if self._state is None:
                self._state = ClusterState(self._hosts, connect_within=CONNECT_WITHIN)
            return self._state

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._state is not None:
                self._state.close()
                self._state = None


class LazyRecords:
    """`ports.JobRecords` of one job."""

    def __init__(self, shared: SharedClusterState, job: str) -> None:
        self._shared, self._job = shared, job

    def read(self) -> tuple[JobRecord, int] | None:
        return ZooKeeperJobRecords(self._shared.state(), self._job).read()

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        return ZooKeeperJobRecords(self._shared.state(), self._job).compare_and_set(record, version)
