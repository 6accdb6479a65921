"""The journal in ZooKeeper: every front's order decisions where a lost node cannot take them.

    /flamestream/JOB/journal/front-3/fence                            the newest attempt that has sealed, or is about to
    /flamestream/JOB/journal/front-3/entries/ATTEMPT-NUMBER-LAST      a batch of entries; LAST is the time of the last one

A batch is one transaction: "the fence is still at the version that I sealed, and create this node". So a seal is one compare-and-set of
the fence: what exists then counts for ever, and nothing of an older attempt can follow (a zombie's transaction fails as a whole). A batch
whose answer was lost is sent again under the same name: if it is there already, it was ours.

Entries of one turn of the loop make a batch, one batch a front is under way, and what arrives meanwhile makes the next. For small entries:
a server takes a megabyte at most, and has everything in memory; a trim at every commit keeps it small.

Keeps: JournalAppended only for entries that every later seal gives back. Does not: go on while ZooKeeper is away (releases wait then, as
with any journal that is lost); say whether it is replicated (who runs ZooKeeper does).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from flamestream.adapters.zookeeper import ClusterState
from flamestream.core.actions import Append, SealJournal, TrimJournal
from flamestream.core.events import Entry, JournalAppended, JournalFailed, JournalSealed, SourceFailed
from flamestream.model.errors import Bug, ClusterStateUnavailable, Corrupt, Fenced, FlameStreamError, PayloadError
from flamestream.model.ids import Fence, Offset, Partition
from flamestream.model.time import START, FrontId, Time
from flamestream.ports import Post, Reactor, Timer

LARGEST: Final = 900_000
"""Bytes of a batch: ZooKeeper refuses a request of a megabyte (jute.maxbuffer)."""
FIRST_PAUSE: Final = 0.05
MAX_PAUSE: Final = 2.0
PATIENCE: Final = 2.0
"""Seconds without an answer after which the trouble is told."""

_Row = tuple[int, str, int, int, bytes]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[msgspec.msgpack.Decoder[list[_Row]]] = msgspec.msgpack.Decoder(list[_Row])


class _Sealed(msgspec.Struct, frozen=True):
    """The answer of a seal."""

    version: int
    """Of the fence."""
    entries: list[Entry]
    batches: dict[str, int]
    """Name and last time of everything that is there."""


class ZooKeeperJournal:
    """`ports.Journal` for all fronts of a worker. `connect` blocks, and is called in a helper thread, once."""

    def __init__(self, connect: Callable[[], ClusterState], job: str, reactor: Reactor, post: Post, *, keep: bool = False) -> None:
        self._connect, self._root, self._reactor, self._post, self._keep = connect, f"/flamestream/{job}/journal", reactor, post, keep
        self._state: ClusterState | None = None
        self._sealing: dict[FrontId, Fence] = {}
        self._logs: dict[FrontId, _Log] = {}
        self._dirty: dict[FrontId, _Log] = {}

    # --- seal -----------------------------------------------------------------------------------------------------------------------

    def seal(self, action: SealJournal) -> None:
        """Answer: JournalSealed."""
        if self._sealing.get(action.front, action.fence) > action.fence:
            return
        self._sealing[action.front] = action.fence
        if (old := self._logs.pop(action.front, None)) is not None:
            old.abandon()
        self._seal(action, FIRST_PAUSE)

    def _seal(self, action: SealJournal, pause: float) -> None:
        if self._sealing[action.front] == action.fence:
            self._reactor.background(partial(self._do_seal, action), partial(self._sealed, action, pause))

    def _sealed(self, action: SealJournal, pause: float, result: _Sealed | Exception) -> None:
        if self._sealing[action.front] != action.fence:
            return
        if isinstance(result, _Sealed):
            assert self._state is not None, "who has sealed is connected"
            path = self._folder(action.front)
            self._logs[action.front] = _Log(path, action.fence, result, self._state, self._reactor, partial(self._written, action.front))
            self._post(JournalSealed(action.fence, action.front, result.entries))
        elif isinstance(result, ClusterStateUnavailable):
            if pause == FIRST_PAUSE:
                self._post(JournalFailed(action.fence, action.front, f"cannot seal the journal: {result}; it is tried again"))
            self._reactor.later(pause, partial(self._seal, action, min(2 * pause, MAX_PAUSE)))
        elif isinstance(result, Fenced):
            self._post(JournalFailed(action.fence, action.front, str(result)))
        elif isinstance(result, FlameStreamError):
            self._post(SourceFailed(action.fence, action.front, result.category, str(result)))
        else:
            raise result

    def _do_seal(self, action: SealJournal) -> _Sealed:
        """In a helper thread."""
        if self._state is None:
            self._state = self._connect()
        folder = self._folder(action.front)
        version = _fence(self._state, folder, action.fence.attempt)
        return _read(self._state, folder, version, action.cut)

    def _folder(self, front: FrontId) -> str:
        return f"{self._root}/front-{front}"

    # --- append ---------------------------------------------------------------------------------------------------------------------

    def append(self, action: Append) -> None:
        """Answer: JournalAppended, from a later turn."""
        log = self._logs.get(action.front)
        if log is None or log.fence != action.fence:
            if self._sealing.get(action.front, action.fence) > action.fence:
                return
            raise Bug(f"front {action.front} appends under {action.fence} before its journal is sealed")
        if not self._dirty:
            self._reactor.soon(self._flush)
        self._dirty[action.front] = log
        log.waiting.append(action.entry)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for log in dirty.values():
            log.begin()

    def _written(self, front: FrontId, log: "_Log", result: Time | FlameStreamError) -> None:
        if isinstance(result, int):
            self._post(JournalAppended(log.fence, front, result))
        elif result.category == "user":
            self._post(SourceFailed(log.fence, front, result.category, str(result)))
        else:
            self._post(JournalFailed(log.fence, front, str(result)))

    # --- trim -----------------------------------------------------------------------------------------------------------------------

    def trim(self, action: TrimJournal) -> None:
        """Delete batches with nothing at or above `before`. What is not deleted now is tried at the next trim."""
        log = self._logs.get(action.front)
        if log is not None and log.fence == action.fence and not self._keep:
            log.trim(action.before)


class _Log:
    """What one attempt writes for one front. Only in the loop's thread."""

    def __init__(
        self, folder: str, fence: Fence, sealed: _Sealed, state: ClusterState, reactor: Reactor,
        told: "Callable[[_Log, Time | FlameStreamError], None]",
    ) -> None:  # fmt: skip
        self.fence = fence
        self.waiting: list[Entry] = []
        self._folder, self._version, self._state, self._reactor, self._told = folder, sealed.version, state, reactor, told
        self._batches = sealed.batches
        self._number = 0
        self._batch: tuple[str, bytes, Time] | None = None
        self._failures = 0
        self._abandoned = False
        self._late: Timer | None = None

    def abandon(self) -> None:
        """Write nothing more, and tell nobody."""
        self._abandoned = True
        if self._late is not None:
            self._late.cancel()

    def begin(self) -> None:
        """Send the next batch, if none is under way."""
        if self._batch is None and self.waiting and not self._abandoned:
            taken = self._take()
            if taken is not None:
                self._number += 1
                last = taken[-1].time
                name = f"{self.fence.attempt:08d}-{self._number:08d}-{last:020d}"
                self._batch = name, _encode([(e.time, e.partition, e.first, e.count, e.payloads) for e in taken]), last
                self._send()

    def trim(self, before: Time) -> None:
        """The answers are not waited for: a node that stays is met again."""
        for name in [name for name, last in self._batches.items() if last < before]:
            del self._batches[name]
            self._state.client.delete_async(f"{self._folder}/entries/{name}")

    def _take(self) -> list[Entry] | None:
        size = 0
        for place, entry in enumerate(self.waiting):
            size += len(entry.payloads) + 64
            if size > LARGEST:
                if place == 0:
                    self.abandon()
                    message = f"an entry of {len(entry.payloads)} bytes is more than a journal in ZooKeeper takes ({LARGEST})"
                    self._told(self, PayloadError(f"{message}: name a folder on a shared volume in spec.journal.folder"))
                    return None
                taken, self.waiting = self.waiting[:place], self.waiting[place:]
                return taken
        taken, self.waiting = self.waiting, []
        return taken

    def _send(self) -> None:
        if self._abandoned or self._batch is None:
            return
        name, data, _ = self._batch
        transaction = self._state.client.transaction()
        transaction.check(f"{self._folder}/fence", self._version)
        transaction.create(f"{self._folder}/entries/{name}", data)
        self._late = self._reactor.later(PATIENCE, lambda: self._trouble("it has not answered yet"))
        transaction.commit_async().rawlink(lambda answer: self._reactor.soon(lambda: self._answered(answer)))

    def _answered(self, answer: Any) -> None:
        assert self._late is not None and self._batch is not None, "an answer to what was sent"
        self._late.cancel()
        if self._abandoned:
            return
        if answer.exception is not None:
            self._trouble(type(answer.exception).__name__)
            self._reactor.later(min(FIRST_PAUSE * 2 ** (self._failures - 1), MAX_PAUSE), self._send)
            return
        checked, created = answer.get()
        if isinstance(checked, (BadVersionError, NoNodeError)):
            self.abandon()
            message = f"journal {self._folder}: a newer attempt has sealed it; this worker of attempt {self.fence.attempt} was replaced"
            self._told(self, Fenced(message))
        elif isinstance(created, Exception) and not isinstance(created, NodeExistsError):
            raise Bug(f"journal {self._folder}: ZooKeeper refuses an entry: {created!r}")
        else:
            self._done(*self._batch)

    def _done(self, name: str, _: bytes, last: Time) -> None:
        self._batches[name] = last
        self._batch, self._failures = None, 0
        self._told(self, last)
        self.begin()

    def _trouble(self, reason: str) -> None:
        self._failures += 1
        if self._failures == 1 and not self._abandoned:
            message = f"cannot write the journal to ZooKeeper at {self._state.hosts}: {reason}; it is tried again until it succeeds"
            self._told(self, ClusterStateUnavailable(message))


def everything(state: ClusterState, job: str, front: FrontId) -> list[Entry]:
    """All entries of `front` that are there, oldest first, for audits of a journal that keeps everything. Raises NoNodeError if none is."""
    return _read(state, f"/flamestream/{job}/journal/front-{front}", 0, START).entries


def _fence(state: ClusterState, folder: str, attempt: int) -> int:
    """Make `attempt` the newest one that may write; the fence's version. Raises Fenced if a newer one has come."""
    path, client, mine = f"{folder}/fence", state.client, b"%d" % attempt
    while True:
        try:
            data, stat = state.ask(f"reading {path}", lambda: client.get_async(path))
        except NoNodeError:
            _create(state, f"{folder}/entries", b"")
            _create(state, path, b"0")
            continue
        if int(data) > attempt:
            raise Fenced(f"journal {folder}: attempt {int(data)} has sealed it; this worker of attempt {attempt} has been replaced")
        if int(data) == attempt:
            return int(stat.version)
        try:
            return int(state.ask(f"writing {path}", partial(client.set_async, path, mine, version=stat.version)).version)
        except BadVersionError:
            continue


def _create(state: ClusterState, path: str, data: bytes) -> None:
    """Unless it is there."""
    try:
        state.ask(f"creating {path}", lambda: state.client.create_async(path, data, makepath=True))
    except NodeExistsError:
        return


def _read(state: ClusterState, folder: str, version: int, cut: Time) -> _Sealed:
    """All that counts, from `cut` on."""
    client = state.client
    state.ask(f"syncing {folder}", lambda: client.sync_async(folder))  # a follower may be behind
    names = sorted(state.ask(f"listing {folder}", lambda: client.get_children_async(f"{folder}/entries")))
    batches = {name: int(name.rpartition("-")[2]) for name in names}
    entries: list[Entry] = []
    asked = [(name, client.get_async(f"{folder}/entries/{name}")) for name, last in batches.items() if last >= cut]
    for name, answer in asked:
        try:
            data, _ = answer.get(timeout=5.0)
        except NoNodeError:
            continue  # trimmed by the predecessor just now, so below its committed cut
        except (KazooException, KazooTimeoutError) as error:
            raise ClusterStateUnavailable(f"ZooKeeper at {state.hosts}: reading {folder} got no answer ({type(error).__name__})") from error
        entries += [entry for entry in _entries(data, f"{folder}/entries/{name}") if entry.time >= cut]
    return _Sealed(version, sorted(entries, key=lambda entry: entry.time), batches)


def _entries(data: bytes, name: str) -> list[Entry]:
    try:
        rows = _decode.decode(data)
    except msgspec.DecodeError as error:
        raise Corrupt(f"journal entry {name} is damaged: {error}; restore ZooKeeper from a backup") from error
    return [Entry(Time(time), Partition(partition), Offset(first), count, payloads) for time, partition, first, count, payloads in rows]
