"""The journal on a local folder: every front's order decisions, in files that only grow.

Entries of one turn of the loop are written with one `write` and reported together. With `fsync` the write and
the sync run beside the loop (disk.py; in a helper thread without the kernel, and for the first batch of a
file), and what arrives meanwhile makes the next batch; the journal then survives the machine, without it the
processes only. Without it the write is in the loop, behind the next pass: other workers wait for what that
pass does, and nobody for the write. A full or broken disk fails the batch: the worker is told once, and the
batch is tried again until it succeeds, in a new file if a part of it was written (files are never shortened;
a reader takes the first of two equal entries). What may wait meanwhile is bounded by the fronts' credit.

Files are small (`rotate`), because a recovery reads what a trim has left; a trim deletes whole files. `keep`
never trims, for audits.

Keeps: JournalAppended only for entries that the next seal will count (journal/seal.py says why). Does not:
merge fronts, or order them. Which failures it survives is stated as above: a job whose guarantee needs more
is refused by whoever reads its manifest. Format: docs/reference/formats.md.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import Entry, JournalAppended, JournalFailed
from flamestream.journal.file import head, record
from flamestream.journal.fronts import AGAIN, AWAY, Outage, SealedFronts
from flamestream.journal.seal import Counted, FrontFolder
from flamestream.machine.disk import Disk
from flamestream.model.errors import Bug, FlameStreamError
from flamestream.model.ids import Fence
from flamestream.model.time import START, FrontId, Time
from flamestream.ports import Post, Reactor
from flamestream.store.folder import LocalStore, sync_folder

ROTATE: Final = 4 << 20
"""Bytes after which a new file begins: 50,000 small entries, 0.1 s of a recovery."""


class FolderJournal(SealedFronts["_Log", Counted]):
    """`ports.Journal` on the folder `root`, for all fronts of a worker."""

    def __init__(
        self,
        root: Path,
        reactor: Reactor,
        post: Post,
        *,
        fsync: bool = False,
        rotate: int = ROTATE,
        keep: bool = False,
    ) -> None:
        super().__init__(reactor, post, reactor)
        self._store = LocalStore(root, create=True, durable=fsync)
        self._fsync = fsync
        self._rotate = rotate
        self._keep = keep
        self._dirty: dict[FrontId, _Log] = {}
        self._disk = Disk(reactor) if fsync and Disk.here() else None

    # --- seal -----------------------------------------------------------------------------------------------

    def _name(self, front: FrontId) -> str:
        return f"journal {FrontFolder(self._store, front).path}"

    def _sealer(self, action: SealJournal) -> Callable[[], Counted]:
        return partial(FrontFolder(self._store, action.front).seal, action.fence.attempt, action.cut)

    def _opened(self, action: SealJournal, sealed: Counted) -> "tuple[_Log, list[Entry]]":
        folder = FrontFolder(self._store, action.front)
        return _Log(folder, action.fence, sealed, fsync=self._fsync, rotate=self._rotate), sealed.entries

    # --- append ---------------------------------------------------------------------------------------------

    def append(self, action: Append) -> None:
        """Make an entry durable. Answer: JournalAppended, from a later turn."""
        log = self._log_of(action)
        if log is None:
            return
        if not self._dirty:
            # Without fsync the write is in the loop: a turn later, so that other workers have what this pass
            # sends before it.
            self._reactor.soon(self._flush if self._fsync else partial(self._reactor.soon, self._flush))
        self._dirty[action.front] = log
        log.add(action.entry)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for front, log in dirty.items():
            self._begin(front, log)

    def _begin(self, front: FrontId, log: "_Log") -> None:
        """Write the next batch of a front, unless one is under way."""
        if not log.begin():
            return
        if not self._fsync:
            self._written(front, log, _outcome(log.write))
        elif self._disk is None or log.needs_file:
            # Beginning a file lists and syncs the folder, which would hold up the loop.
            self._reactor.background(log.write, partial(self._written, front, log))
        else:
            self._disk.write(log.fd, log.bytes_of_batch(), partial(self._synced, front, log))

    def _synced(self, front: FrontId, log: "_Log", error: OSError | None) -> None:
        self._written(front, log, error or _outcome(log.confirm))

    def _written(self, front: FrontId, log: "_Log", result: Time | Exception) -> None:
        if not log.end(failed=isinstance(result, Exception)):
            return
        if isinstance(result, AWAY):
            if log.outage.fails(result):
                self._post(
                    JournalFailed(
                        log.fence,
                        front,
                        f"cannot write journal {log.path}: {result}; it is tried again until it succeeds",
                    )
                )
            self._reactor.later(AGAIN.after(log.outage.failures), partial(self._begin, front, log))
        elif isinstance(result, Exception):
            log.abandon()
            self._refused(log.fence, front, result)
        else:
            self._post(JournalAppended(log.fence, front, result))
            self._begin(front, log)

    # --- trim -----------------------------------------------------------------------------------------------

    def trim(self, action: TrimJournal) -> None:
        """Delete whole files with nothing at or above `before`. What cannot be deleted now is tried at the
        next trim."""
        log = self._logs.get(action.front)
        if log is None or log.fence != action.fence or self._keep:
            return
        if names := log.superfluous(action.before):
            self._reactor.background(partial(log.folder.remove, names), partial(self._trimmed, log, names))

    def _trimmed(self, log: "_Log", names: list[str], result: Exception | None) -> None:
        if result is None:
            log.forget(names)
        elif not isinstance(result, AWAY):
            raise result


class _Log:
    """The writing of one attempt for one front. `write` may run in a helper thread, everything else in the
    loop's; never both at once."""

    def __init__(
        self, folder: FrontFolder, fence: Fence, counted: Counted, *, fsync: bool, rotate: int
    ) -> None:
        self.folder = folder
        self.fence = fence
        self.path = folder.path
        self.outage = Outage()
        self._fsync = fsync
        self._rotate = rotate
        self._older: dict[str, Time] = {file.name: file.last for file in counted.files} | dict.fromkeys(
            counted.strays, START
        )
        """Files that this attempt does not write to (any more), and the last entry that counts in each."""
        self._last = counted.last
        self._newest = counted.last
        self._waiting: list[bytes] = []
        self._batch = b""
        self._batch_last = START
        self._busy = False
        self._abandoned = False
        self.fd = -1
        self._name = ""
        self._size = 0
        """Bytes of the file that are durable; -1 while its name is not."""

    # --- in the loop ----------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Add an entry to the next batch. Raises Bug unless it follows those before."""
        if entry.time <= self._newest:
            raise Bug(f"journal {self.path}: an entry at {entry.time} follows one at {self._newest}")
        self._newest = entry.time
        self._waiting.append(record(entry))

    def begin(self) -> bool:
        """Take what waits as a batch; a batch that failed comes first. False if there is nothing to do
        now."""
        if self._busy or self._abandoned or not (self._batch or self._waiting):
            return False
        if not self._batch:
            self._batch, self._batch_last = b"".join(self._waiting), self._newest
            self._waiting.clear()
        self._busy = True
        return True

    def end(self, failed: bool) -> bool:
        """The batch under way has ended. False if nobody waits for it any more."""
        self._busy = False
        if not failed:
            self._batch, self.outage = b"", Outage()
        if self._abandoned:
            self._close()
        return not self._abandoned

    def abandon(self) -> None:
        """Write nothing more."""
        self._abandoned = True
        # Under a write its descriptor stays open: once closed, its number could be another file's.
        if not self._busy:
            self._close()

    def superfluous(self, before: Time) -> list[str]:
        """Files with no entry at or above `before`, oldest first."""
        return [name for name, last in self._older.items() if last < before]

    def forget(self, names: list[str]) -> None:
        """The files `names` are gone."""
        for name in names:
            self._older.pop(name, None)

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    # --- in a helper thread, or in the loop -----------------------------------------------------------------

    def write(self) -> Time:
        """Write the batch. Returns the time up to which everything is durable and will be counted by the next
        seal."""
        if self.needs_file:
            self._open_next()
        left = memoryview(self.bytes_of_batch())
        while left:
            left = left[os.write(self.fd, left) :]
        if self._fsync:
            # Not fsync: the length is synced too, and times are not (decision 046).
            os.fdatasync(self.fd)
        return self.confirm()

    @property
    def needs_file(self) -> bool:
        """Whether the batch has to begin a new file."""
        # Without a name (st_nlink is 0: somebody has deleted it) nobody finds what is written to it.
        return self.fd < 0 or self._size >= self._rotate or os.fstat(self.fd).st_nlink == 0 or self._spoiled

    @property
    def _spoiled(self) -> bool:
        """Whether the file has bytes of a batch that failed, or a name that a crash of the machine may take
        away. It stays as it is: a sealer may have counted some of it already."""
        # Also behind a failed sync: Linux reports that once and may drop the pages, so that a second sync of
        # the same file would prove nothing.
        return os.fstat(self.fd).st_size != self._size

    def bytes_of_batch(self) -> bytes:
        """The bytes to write to `fd`: a new file begins with its head."""
        return self._batch if self._size else head(self._last) + self._batch

    def confirm(self) -> Time:
        """The batch is written: only an attempt that nobody has fenced since may say so (!). The time up to
        which all is durable."""
        self.folder.check(self.fence.attempt)
        self._size = os.fstat(self.fd).st_size
        self._last = self._batch_last
        return self._last

    def _open_next(self) -> None:
        name = self.folder.next_log(self.fence.attempt)
        fd = os.open(
            self.path / name, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o666
        )
        if self.fd >= 0:
            # A sealer may count what a failed batch has left there: it stays until that batch is below a cut.
            self._older[self._name] = self._batch_last if self._spoiled else self._last
            os.close(self.fd)
        self.fd, self._name, self._size = fd, name, -1
        if self._fsync:
            # If it fails, the next try begins another file (!): what is in this one may go with its name.
            sync_folder(self.path)
        self._size = 0


def _outcome(work: Callable[[], Time]) -> Time | Exception:
    try:
        return work()
    except (OSError, FlameStreamError) as error:
        return error


def everything(root: Path, front: FrontId, cut: Time = START) -> list[Entry]:
    """All entries of `front` from `cut` on that count, oldest first. Raises Corrupt if some were trimmed."""
    return FrontFolder(LocalStore(root), front).everything(cut)
