"""The journal in ZooKeeper: every front's order decisions where a lost node cannot take them.

    /flamestream/JOB/journal/front-3/fence                            the newest attempt that has sealed, or
                                                                      is about to
    /flamestream/JOB/journal/front-3/entries/ATTEMPT-NUMBER-LAST      a batch of entries; LAST is the time of
                                                                      the last one

A batch is one transaction: "the fence is still at the version that I sealed, and create this node". So a seal
is one compare-and-set of the fence: what exists then counts for ever, and nothing of an older attempt can
follow (a zombie's transaction fails as a whole). A batch whose answer was lost is sent again under the same
name: if it is there already, it was ours.

What is made below `journal` gets the rights of `journal`: so whoever else has one there keeps it (the
operator, zookeeper_rights.py).

Entries of one turn of the loop make a batch, one batch a front is under way, and what arrives meanwhile makes
the next. For small entries: a server takes a megabyte at most, and has everything in memory; a trim at every
commit keeps it small.

Keeps: JournalAppended only for entries that every later seal gives back. Does not: go on while ZooKeeper is
away (releases wait then, as with any journal that is lost); say whether it is replicated (who runs ZooKeeper
does).
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    QuotaExceededError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL

from flamestream.core.protocol.events import Entry
from flamestream.journal.batches import Batch, BatchJournal, Done, Sealed, decoded
from flamestream.model.errors import Bug, ClusterStateUnavailable, Fenced
from flamestream.model.ids import Attempt
from flamestream.model.time import START, FrontId, Time
from flamestream.ports import Post, Reactor
from flamestream.store.zookeeper import ClusterState

LARGEST: Final = 900_000
"""Bytes that a batch may have: ZooKeeper refuses a request of a megabyte (jute.maxbuffer)."""
FULL: Final = 65_536
"""Bytes: a server keeps the last 500 transactions in its heap for followers, of whatever size and whether it
has followers or not."""


def zookeeper_journal(
    connect: Callable[[], ClusterState], job: str, reactor: Reactor, post: Post, *, keep: bool = False
) -> BatchJournal:
    """`ports.Journal`. `connect` blocks, and is called in a helper thread, once, and at once: a standby's session is
    there before it takes over. What is wrong with it is told by the seal, which tries again."""
    place = _ZooKeeper(connect, f"/flamestream/{job}/journal", reactor)
    reactor.background(place.connected, lambda _: None)
    return BatchJournal(place, reactor, post, keep=keep)


class _ZooKeeper:
    """`journal.batches.Place`."""

    name = "ZooKeeper"

    def __init__(self, connect: Callable[[], ClusterState], root: str, reactor: Reactor) -> None:
        self._connect, self._root, self._reactor = connect, root, reactor
        self._state: ClusterState | None = None
        self._connecting = threading.Lock()

    def connected(self) -> ClusterState:
        """The session; the first call makes it. Blocks."""
        # Fronts are sealed in several threads, and a second session would be nobody's.
        with self._connecting:
            if self._state is None:
                self._state = self._connect()
                self.name = f"ZooKeeper at {self._state.hosts}"
            return self._state

    def seal(self, front: FrontId, attempt: Attempt, cut: Time) -> Sealed:
        state = self.connected()
        folder, acl = f"{self._root}/front-{front}", _acl_of(state, self._root)
        # The fence first: no older attempt can create a batch from here on, so what is read is all there is
        # of them (!).
        version = _fence(state, folder, attempt, acl)
        entries, batches = _read(state, folder, cut)
        writer = _Writer(state, self._reactor, folder, attempt, version, batches, acl)
        return Sealed(entries, max(batches.values(), default=START), writer)


class _Writer:
    """`journal.batches.Writer`."""

    largest, full = LARGEST, FULL
    way_out = "name a folder on a shared volume in spec.journal.folder"

    def __init__(
        self, state: ClusterState, reactor: Reactor, folder: str, attempt: Attempt, version: int,
        batches: dict[str, Time], acl: list[ACL] | None,
    ) -> None:  # fmt: skip
        """`version` of the fence; `batches`: name and last time of everything that is there; `acl` of what is
        made."""
        self._state, self._reactor, self._folder = state, reactor, folder
        self._attempt, self._version, self._batches, self._acl = attempt, version, batches, acl

    def send(self, batch: Batch, done: Done) -> None:
        name = f"{self._attempt:08d}-{batch.number:08d}-{batch.last:020d}"
        transaction = self._state.client.transaction()
        transaction.check(f"{self._folder}/fence", self._version)
        transaction.create(f"{self._folder}/entries/{name}", batch.data, self._acl)

        def answered(answer: Any) -> None:
            error = self._error(answer)
            if error is None:
                self._batches[name] = batch.last
            done(error)

        # kazoo calls back in a thread of its own
        transaction.commit_async().rawlink(lambda answer: self._reactor.soon(lambda: answered(answer)))

    def trim(self, before: Time) -> None:
        """Delete batches below `before`. The answers are not waited for: a node that stays is met again."""
        for name in [name for name, last in self._batches.items() if last < before]:
            del self._batches[name]
            self._state.client.delete_async(f"{self._folder}/entries/{name}")

    def _error(self, answer: Any) -> Exception | None:
        if answer.exception is not None:
            return ConnectionError(type(answer.exception).__name__)
        checked, created = answer.get()
        if isinstance(checked, (BadVersionError, NoNodeError)):
            message = (
                f"journal {self._folder}: a newer attempt has sealed it; this worker of attempt "
                f"{self._attempt} was replaced"
            )
            return Fenced(message)
        if isinstance(checked, NoAuthError) or isinstance(created, NoAuthError):
            return ClusterStateUnavailable(
                "it refuses the login of this pod, which was replaced: so will the pod be, or resume the job"
            )
        if isinstance(created, QuotaExceededError):
            way_out = "raise zookeeper.journalRoom of the chart, and commit more often (checkpoint.interval)"
            return ClusterStateUnavailable(f"the journal is full: {way_out}")
        # NodeExistsError: an own try whose answer was lost. It is said only where the check before it has
        # passed, so the batch counts (!).
        if isinstance(created, Exception) and not isinstance(created, NodeExistsError):
            return Bug(f"journal {self._folder}: ZooKeeper refuses an entry: {created!r}")
        return None


def everything(state: ClusterState, job: str, front: FrontId, cut: Time = START) -> list[Entry]:
    """All entries of `front` from `cut` on that are there, oldest first: all there ever were of a journal that
    keeps everything."""
    try:
        return _read(state, f"/flamestream/{job}/journal/front-{front}", cut)[0]
    except NoNodeError:
        return []  # no attempt has sealed it yet


def _acl_of(state: ClusterState, root: str) -> list[ACL] | None:
    """The rights of `root`. None: nobody has made it, so it will be as everything that this session makes."""
    try:
        return list(state.ask(f"reading the rights of {root}", lambda: state.client.get_acls_async(root))[0])
    except NoNodeError:
        return None


def _fence(state: ClusterState, folder: str, attempt: int, acl: list[ACL] | None) -> int:
    """Make `attempt` the newest one that may write; the fence's version. Raises Fenced if a newer one has
    come."""
    path, client, mine = f"{folder}/fence", state.client, b"%d" % attempt
    while True:
        try:
            data, stat = state.ask(f"reading {path}", lambda: client.get_async(path))
        except NoNodeError:
            # In this order: once there is a fence nobody looks whether `entries` is there.
            _create(state, f"{folder}/entries", b"", acl)
            _create(state, path, b"0", acl)
            continue
        if int(data) > attempt:
            raise Fenced(
                f"journal {folder}: attempt {int(data)} has sealed it; "
                f"this worker of attempt {attempt} has been replaced"
            )
        # written by an earlier try of our own
        if int(data) == attempt:
            return int(stat.version)
        try:
            return int(
                state.ask(
                    f"writing {path}", partial(client.set_async, path, mine, version=stat.version)
                ).version
            )
        except BadVersionError:
            continue


def _create(state: ClusterState, path: str, data: bytes, acl: list[ACL] | None) -> None:
    """Create a node, unless it is there."""
    try:
        state.ask(f"creating {path}", lambda: state.client.create_async(path, data, acl, makepath=True))
    except NodeExistsError:
        return


def _read(state: ClusterState, folder: str, cut: Time) -> tuple[list[Entry], dict[str, Time]]:
    """All entries that count, from `cut` on; name and last time of all batches."""
    client = state.client
    state.ask(f"syncing {folder}", lambda: client.sync_async(folder))  # a follower may be behind
    names = sorted(state.ask(f"listing {folder}", lambda: client.get_children_async(f"{folder}/entries")))
    batches = {name: Time(int(name.rpartition("-")[2])) for name in names}
    entries: list[Entry] = []
    asked = [
        (name, client.get_async(f"{folder}/entries/{name}")) for name, last in batches.items() if last >= cut
    ]
    for name, answer in asked:
        try:
            data, _ = answer.get(timeout=5.0)
        except NoNodeError:
            continue  # trimmed by the predecessor just now, so below its committed cut
        except (KazooException, KazooTimeoutError) as error:
            raise ClusterStateUnavailable(
                f"ZooKeeper at {state.hosts}: reading {folder} got no answer ({type(error).__name__})"
            ) from error
        entries += [entry for entry in decoded(data, f"{folder}/entries/{name}") if entry.time >= cut]
    return sorted(entries, key=lambda entry: entry.time), batches
