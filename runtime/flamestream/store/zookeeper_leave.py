"""The leave of a job for another one, of a cluster whose objects this one does not see: beside its record, which both
reach.

    /flamestream/JOB/leave    which job may take it over, and fingerprints of all that both must say alike
    /flamestream/JOB/asks     which one asks it to end now: there for as long as the session of who asks

The operator of the cluster where the job runs gives the leave, and hears who asks; the one of the other cluster reads
it, and asks. Both have the same login, so no job has a right here (zookeeper_rights.py).

Keeps: who dies asks no more. Does not: end a job, or say who goes on with it: its record does, in the write that
commits its last cut (core/coordinator/changes/hand_over.py).
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from kazoo.exceptions import NodeExistsError, NoNodeError

from flamestream.model.errors import UserError
from flamestream.store.zookeeper import ClusterState, folder_of

_ANY: Final = -1
"""Whatever version a node has."""


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """A job's leave, as its own cluster's operator has written it."""

    job: str
    """The job that gives it, by the name under which it runs."""
    to: str
    """The job that may take it over."""
    kept: Mapping[str, str]
    """Fingerprints of the fields that a stream which runs on cannot change."""


class Asker(msgspec.Struct, frozen=True):
    """A job that asks another one to end."""

    job: str


class ZooKeeperLeave:
    """The leave of one job. Calls block; they raise ClusterStateUnavailable, and Corrupt for what is none of ours."""

    def __init__(self, state: ClusterState, job: str) -> None:
        self._state, self._job = state, job
        self._leave, self._asks = (f"{folder_of(job)}/{name}" for name in ("leave", "asks"))

    def read(self) -> Leave | None:
        """None: it has given none."""
        found = self._state.read(self._leave, Leave)
        return found[0] if found else None

    def give(self, leave: Leave | None) -> str:
        """Give it; None: take it away. Gives the name of the job that asks; "": none does."""
        if leave is None:
            # A look costs ZooKeeper no write, and a new leader asks this of all its jobs at once.
            if self.read() is not None:
                self._delete(self._leave)
            return ""
        if self.read() != leave:
            self._write(self._leave, leave)
        asker = self._state.read(self._asks, Asker)
        return asker[0].job if asker else ""

    def ask(self, job: str) -> None:
        """Ask it to end, for `job`, until this session ends; "": ask no more. Raises UserError if it has never run."""
        if not job:
            self._delete(self._asks)
            return
        data, create = msgspec.json.encode(Asker(job)), self._state.client.create_async
        try:
            self._state.ask(f"creating {self._asks}", lambda: create(self._asks, data, ephemeral=True))
        except NoNodeError:
            raise UserError(
                f"job {self._job!r} has never run with ZooKeeper at {self._state.hosts}"
            ) from None
        except NodeExistsError:
            return  # asked already, maybe by a leader before: it goes with that one's session

    def _write(self, path: str, value: Leave) -> None:
        data, client = msgspec.json.encode(value), self._state.client
        try:
            self._state.ask(f"writing {path}", lambda: client.set_async(path, data, version=_ANY))
        except NoNodeError:
            self._state.ask(f"creating {path}", lambda: client.create_async(path, data, makepath=True))

    def _delete(self, path: str) -> None:
        try:
            self._state.ask(f"deleting {path}", lambda: self._state.client.delete_async(path))
        except NoNodeError:
            return
