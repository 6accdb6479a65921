"""The job record in ZooKeeper, by kazoo; and who launches a job.

`/flamestream/<job>/record` holds the record as JSON; its version is ZooKeeper's version of the node. A write
names the version it read, so of several writers one wins. A write is sent once: a second try could meet the
first one's effect and take it for a conflict. If its answer is lost, its outcome is unknown
(ClusterStateUnavailable), and only reading again tells. Reads are tried again, bounded.

`/flamestream/<job>/launcher` is a hint for people, an ephemeral node that names who runs the job, so that a
second launcher is refused with the holder's name. It goes when the session does and guarantees nothing: the
fence in the job record does.

How it is reached is one value (zookeeper_access.py). With a login every node is its maker's alone; where
several jobs share a server, zookeeper_rights.py says whose is what. With an authority the session is sealed
(zookeeper_tls.py).

Keeps: every call ends within its deadline, whatever ZooKeeper does. Does not: watch; the coordinator polls
nothing here either.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeVar

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import ACL, make_digest_acl
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from flamestream.core.protocol.job_record import JobRecord
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import from_json
from flamestream.model.errors import ClusterStateUnavailable, Corrupt, FlameStreamError, UserError
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_tls import TlsHandler

T = TypeVar("T")

ROOT: Final = "/flamestream"
SESSION: Final = 6.0
"""Seconds without a word from us after which ZooKeeper removes our ephemeral nodes."""
ANSWER_WITHIN: Final = 5.0
CONNECT_WITHIN: Final = 10.0
READ_TRIES: Final = 3
CLAIM_TRIES: Final = 5


class ClusterState:
    """A session with ZooKeeper, shared by what is kept there. It reconnects by itself until it is closed."""

    def __init__(
        self, access: ZooKeeperAccess, *, session: float = SESSION, connect_within: float = CONNECT_WITHIN,
        refused: type[FlameStreamError] = UserError,
    ) -> None:  # fmt: skip
        """Connect. Raises ClusterStateUnavailable that names the hosts if nobody answers in time. `refused`:
        what a call raises that the login has no right to."""
        self.hosts, self._refused = access.hosts, refused
        self.session = session
        # For connecting alone: kazoo makes no call of ours a second time.
        forever = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0)
        self._tls = TlsHandler(access.authority) if access.authority else None
        sealed = {"handler": self._tls, "use_ssl": True} if self._tls else {}
        self.client = KazooClient(
            self.hosts,
            timeout=session,
            connection_retry=forever,
            logger=_quiet(),
            **sealed,
            **_as(access.login),
        )
        try:
            self.client.start(timeout=connect_within)
        except KazooTimeoutError as error:
            self.close()
            wanted = (
                "; over TLS it must not want a certificate of clients (ssl.clientAuth=none)"
                if self._tls
                else ""
            )
            asked = self._problem or f"is it running there, and reachable from here?{wanted}"
            raise ClusterStateUnavailable(
                f"no ZooKeeper answers at {self.hosts} within {connect_within:g} s: {asked}"
            ) from error

    @property
    def _problem(self) -> str:
        """The reason why TLS refuses the server; "": it does not."""
        return self._tls.problem if self._tls else ""

    def ask(self, what: str, call: Callable[[], Any]) -> Any:
        """The result of an asynchronous call of kazoo, in bounded time. Errors that are answers (no node, bad
        version) pass through."""
        try:
            # Asynchronous, since kazoo's blocking forms of these calls wait without a limit.
            return call().get(timeout=ANSWER_WITHIN)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except NoAuthError as error:
            raise self._refused(
                f"ZooKeeper at {self.hosts} refuses {what}: somebody with another login has made that node. "
                "Give the login that made it, or let whoever has it delete the node"
            ) from error
        except (KazooException, KazooTimeoutError) as error:
            raise ClusterStateUnavailable(
                f"ZooKeeper at {self.hosts}: {what} got no answer ({type(error).__name__}); a write may have "
                "taken effect: read again"
                + (f" (no new connection: {self._problem})" if self._problem else "")
            ) from error

    def read(self, path: str, kind: type[T]) -> tuple[T, int] | None:
        """The value of a node and its version; None if it is not there. Raises Corrupt if it is of another
        kind."""
        try:
            data, stat = self.ask(f"reading {path}", lambda: self.client.get_async(path))
        except NoNodeError:
            return None
        try:
            return from_json(data, kind), int(stat.version)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{path} in ZooKeeper at {self.hosts} is not one of ours: {error}") from error

    def delete(self, job: str, *, record: bool = True) -> None:
        """Everything that is kept here of `job`, or all but its record. Absent is fine."""
        folder = folder_of(job)
        if record:
            self._delete(folder)
        else:
            for child in set(self._children(folder)) - {"/record"}:
                self._delete(folder + child)

    def _children(self, path: str) -> list[str]:
        try:
            return [
                f"/{child}"
                for child in self.ask(f"listing {path}", lambda: self.client.get_children_async(path))
            ]
        except NoNodeError:
            return []

    def _delete(self, path: str) -> None:
        for child in self._children(path):
            self._delete(path + child)
        try:
            self.ask(f"deleting {path}", lambda: self.client.delete_async(path))
        except NoNodeError:
            return

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        self.client.stop()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ZooKeeperJobRecords:
    """The record of one job (ports.JobRecords)."""

    def __init__(self, state: ClusterState, job: str, acl: Sequence[ACL] | None = None) -> None:
        """`acl` of the record; None: as of everything that this session makes."""
        self._state, self._acl = state, acl
        self._path = f"{folder_of(job)}/record"

    def read(self) -> tuple[JobRecord, int] | None:
        """The record and its version, or None before the first attempt."""
        retrying = Retrying(
            retry=retry_if_exception_type(ClusterStateUnavailable),
            stop=stop_after_attempt(READ_TRIES),
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            reraise=True,
        )
        return retrying(self._state.read, self._path, JobRecord)

    def moment(self) -> int:
        """When the record was written last: microseconds since 1970, by the server's clock; 0: never."""
        client = self._state.client
        found = self._state.ask(f"looking at {self._path}", lambda: client.exists_async(self._path))
        return 0 if found is None else int(found.mtime) * 1000

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        """Write if the version is still `version` (None: if there is none). The new version, or None on a
        conflict."""
        data = msgspec.json.encode(record)
        client = self._state.client
        what = f"writing {self._path} over version {version}"
        try:
            if version is None:
                self._state.ask(what, lambda: client.create_async(self._path, data, self._acl, makepath=True))
                return 0
            return int(
                self._state.ask(what, lambda: client.set_async(self._path, data, version=version)).version
            )
        # These are answers: nothing was written. Whatever else is raised leaves that open (!).
        except (NodeExistsError, BadVersionError, NoNodeError):
            return None


class SingleInstance:
    """The launcher's claim to be the only one of its job."""

    def __init__(self, state: ClusterState, job: str) -> None:
        self._state = state
        self._job = job
        self._path = f"{folder_of(job)}/launcher"
        self._mine = msgspec.json.encode(ProcessIdentity.of_this_process())

    def claim(self) -> None:
        """Take the job, for as long as the session lives. Raises UserError that names the holder if another
        launcher has it.

        What a launcher of this machine that is dead has left is removed at once; what is left of one
        elsewhere goes with its session.
        """
        for _ in range(CLAIM_TRIES):
            if self._create():
                return
            found = self._state.read(self._path, ProcessIdentity)
            if found is None:
                continue
            holder, version = found
            if holder.here and not holder.alive:
                self._remove(version)
                continue
            raise UserError(
                f"job {self._job!r} is already run by process {holder.pid} on {holder.host}, since "
                f"{holder.started}: stop that one first. "
                "(If that machine is gone, its claim ends by itself within a minute.)"
            )
        raise ClusterStateUnavailable(
            f"the claim {self._path} in ZooKeeper at {self._state.hosts} keeps changing: try again"
        )

    def release(self) -> None:
        """Give the job back, if it is ours."""
        try:
            _, stat = self._state.ask(
                f"reading {self._path}", lambda: self._state.client.get_async(self._path)
            )
        except NoNodeError:
            return
        # If the session was lost meanwhile, the claim that is there may be another launcher's.
        if stat.ephemeralOwner == self._state.client.client_id[0]:
            self._remove(int(stat.version))

    def _create(self) -> bool:
        create = self._state.client.create_async
        try:
            self._state.ask(
                f"creating {self._path}",
                lambda: create(self._path, self._mine, ephemeral=True, makepath=True),
            )
        except NodeExistsError:
            return False
        return True

    def _remove(self, version: int) -> None:
        try:
            self._state.ask(
                f"deleting {self._path}", lambda: self._state.client.delete_async(self._path, version=version)
            )
        except (NoNodeError, BadVersionError):
            return  # somebody else was faster


def folder_of(job: str) -> str:
    """The node of everything that is kept of `job`. Raises UserError for a name that no node can have."""
    if not job or "/" in job or job in (".", ".."):
        raise UserError(f"{job!r} cannot be a job's name: it names a node in ZooKeeper, so it has no '/'")
    return f"{ROOT}/{job}"


def _as(login: str) -> dict[str, Any]:
    """Settings of kazoo for this access. A login is proved again with every new session."""
    if not login:
        return {}
    user, _, password = login.partition(":")
    return {"auth_data": [("digest", login)], "default_acl": [make_digest_acl(user, password, all=True)]}


def _quiet() -> logging.Logger:
    """kazoo logs every reconnect as a warning; ours to report is only what a call meets."""
    logger = logging.getLogger("flamestream.zookeeper")
    logger.setLevel(logging.ERROR)
    return logger
