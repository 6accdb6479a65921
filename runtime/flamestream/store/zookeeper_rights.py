"""Whose is what in a ZooKeeper that the operator and its jobs share.

    /flamestream                       the operator's
    /flamestream/JOB                   the operator's
    /flamestream/JOB/record            the operator's; the job reads it
    /flamestream/JOB/journal/...       the operator's and the job's; how much it may hold is a quota
    /, /zookeeper, /zookeeper/quota    on a server that nobody else uses: the operator's

A right is a digest of a login (user:password) on each node: ZooKeeper has no rights that are inherited, so
what stands below a node says nothing about it. A session that knows no password has no right anywhere.

What older versions left open to everybody is closed once, by whoever leads first: `/flamestream` then bears
the mark of the login that has closed everything, so a look at it is all that the next leader does. With
another login everything is closed again, if that login may.

Keeps: a job's own nodes are made, and bounded, before its record is first read. Does not: know how a job gets
its login, or read a record.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from kazoo.exceptions import KazooException, MarshallingError, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, make_digest_acl, make_digest_acl_credential

from flamestream.model.errors import ClusterStateUnavailable
from flamestream.store.zookeeper import ANSWER_WITHIN, ROOT, ClusterState, folder_of

AT_ONCE: Final = 256
"""Requests under way, at most."""
BYTES_A_NODE: Final = 256
"""A journal has room for a node a so many bytes: each takes memory beside what it holds."""
SHOWN: Final = 8
_SHARED_BY_ALL: Final = ("/", "/zookeeper", "/zookeeper/quota")
_QUOTAS: Final = "/zookeeper/quota"

log = logging.getLogger(__name__)


class Rights:
    """The rights of jobs in ZooKeeper, given and taken by the operator's session. Its calls block."""

    def __init__(
        self,
        state: ClusterState,
        login: str,
        login_of: Callable[[str], str],
        *,
        room: int = 0,
        alone: bool = False,
    ) -> None:
        """`login`: the session's; `login_of` a job. `room`: bytes of a job's journal, 0: any. `alone`: this
        server is nobody else's."""
        self._state, self._login_of, self._room, self._alone = state, login_of, room, alone
        self._mark = make_digest_acl_credential(*_parts(login)).encode()
        self._own = [make_digest_acl(*_parts(login), all=True)]

    def take(self) -> None:
        """Make all that is there the operator's and its jobs'. Raises ClusterStateUnavailable if this login
        has no right to."""
        client = self._state.client
        try:
            if self._state.ask(f"reading {ROOT}", lambda: client.get_async(ROOT))[0] == self._mark:
                return
        except NoNodeError:
            self._create(ROOT, self._own)
        # ROOT before what is below it: nobody makes more of it meanwhile
        for path in (*(_SHARED_BY_ALL if self._alone else ()), ROOT):
            self._state.ask(f"closing {path}", partial(client.set_acls_async, path, self._own))
        foreign = [
            path for folder in self._children([ROOT]) for path in self._close_job(folder.rpartition("/")[2])
        ]
        if foreign:
            log.error(
                "nodes in ZooKeeper are another login's, or it has lost whose they are",
                extra={"zookeeper": self._state.hosts, "nodes": foreign[:SHOWN]},
            )
        else:
            # Last, and only when all is closed: without the mark the next leader begins anew (!).
            self._state.ask(f"writing {ROOT}", lambda: client.set_async(ROOT, self._mark))

    def prepare(self, job: str) -> None:
        """Make the nodes of `job` that its workers cannot make, and bound what they can."""
        journal = _journal_of(job)
        if (
            self._state.ask(f"looking for {journal}", lambda: self._state.client.exists_async(journal))
            is None
        ):
            # By itself (!): made along with the journal it would get the journal's rights, the job's among
            # them.
            self._create(folder_of(job), self._own)
            self._create(journal, self.of_journal(job))
        self._bound(journal)

    def forget(self, job: str) -> None:
        """The bound of a job that is gone."""
        path = f"{_QUOTAS}{_journal_of(job)}"
        for each in (f"{path}/zookeeper_limits", f"{path}/zookeeper_stats", path, path.rpartition("/")[0]):
            try:
                self._state.ask(f"deleting {each}", partial(self._state.client.delete_async, each))
            except NoNodeError:
                continue

    def of_record(self, job: str) -> list[ACL]:
        """Who may what with the record."""
        return [*self._own, make_digest_acl(*_parts(self._login_of(job)), read=True)]

    def of_journal(self, job: str) -> list[ACL]:
        """All rights, or its maker could not see whose the nodes are to be that it makes."""
        return [*self._own, make_digest_acl(*_parts(self._login_of(job)), all=True)]

    # --- closing --------------------------------------------------------------------------------------------

    def _close_job(self, job: str) -> list[str]:
        """Nodes that are another login's, or nobody's any more: they are left, only ZooKeeper's own superuser can
        take them back or delete them."""
        folder, owners = folder_of(job), {"record": self.of_record(job), "journal": self.of_journal(job)}
        foreign = self._close([folder], self._own)
        for child in self._children([folder]):
            foreign += self._close_below([child], owners.get(child.rpartition("/")[2], self._own))
        return foreign

    def _close_below(self, paths: list[str], acl: list[ACL]) -> list[str]:
        """The nodes, and what is below them, a level at a time: what is closed gets no more children of
        strangers."""
        foreign = list[str]()
        while paths:
            foreign += self._close(paths, acl)
            paths = self._children(paths)
        return foreign

    def _close(self, paths: list[str], acl: list[ACL]) -> list[str]:
        answers = self._asked(paths, lambda path: self._state.client.set_acls_async(path, acl))
        return [path for path, answer in answers if isinstance(answer, NoAuthError | MarshallingError)]

    def _children(self, paths: list[str]) -> list[str]:
        answers = self._asked(paths, self._state.client.get_children_async)
        return [f"{path}/{child}" for path, answer in answers if isinstance(answer, list) for child in answer]

    def _asked(self, paths: Iterable[str], call: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
        """The answers, some at a time; that a node is gone, or another's, is one. So is that ZooKeeper cannot look at
        it: after a death of its own it may have lost the rights of a node, which nobody can read or change then."""
        left = iter(paths)
        while some := [(path, call(path)) for path in islice(left, AT_ONCE)]:
            for path, answer in some:
                try:
                    yield path, answer.get(timeout=ANSWER_WITHIN)
                except (NoNodeError, NoAuthError, MarshallingError) as error:
                    yield path, error
                except (KazooException, KazooTimeoutError) as error:
                    raise ClusterStateUnavailable(
                        f"ZooKeeper at {self._state.hosts}: closing {path} got no answer "
                        f"({type(error).__name__})"
                    ) from error

    # --- bounds ---------------------------------------------------------------------------------------------

    def _bound(self, journal: str) -> None:
        """ZooKeeper keeps to it where its `enforceQuota` is set."""
        path, client = f"{_QUOTAS}{journal}", self._state.client
        limits, wanted = f"{path}/zookeeper_limits", _limits(self._room)
        try:
            if self._state.ask(f"reading {limits}", lambda: client.get_async(limits))[0] != wanted:
                self._state.ask(f"writing {limits}", lambda: client.set_async(limits, wanted))
        except NoNodeError:
            if self._room:
                self._create(f"{path}/zookeeper_stats", self._own, b"count=0,bytes=0")
                self._create(limits, self._own, wanted)

    def _create(self, path: str, acl: list[ACL], data: bytes = b"") -> None:
        """Unless it is there. What is missing above it becomes the same's."""
        try:
            self._state.ask(
                f"creating {path}", lambda: self._state.client.create_async(path, data, acl, makepath=True)
            )
        except NodeExistsError:
            return


def _journal_of(job: str) -> str:
    return f"{folder_of(job)}/journal"


def _limits(room: int) -> bytes:
    """As ZooKeeper writes it; -1: no limit."""
    nodes, size = (room // BYTES_A_NODE, room) if room else (-1, -1)
    return b"count=-1,bytes=-1;byteHardLimit=%d;countHardLimit=%d" % (size, nodes)


def _parts(login: str) -> tuple[str, str]:
    user, _, password = login.partition(":")
    return user, password
