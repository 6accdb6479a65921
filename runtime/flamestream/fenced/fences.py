"""Fencing on a shared folder: which logs of a files sink count, and up to which byte.

    sink.msgpack                            whose folder this is
    attempt-3-1-w5-0.log                    what one worker delivered under fence (3, 1)
    fences/0000000003-0000000001.announced  someone opens under (3, 1): nobody acknowledges anything older any
                                            more
    fences/0000000003-0000000001.record     what counts of everything older, for ever

Opening is announcing a fence and deciding under it (decisions.py); the first worker to do so decides for all
slots, the others read its record. A record also says where each slot's last bundle is, and has the lengths of
all older logs, so the files of older fences may go.

Keeps: a record never changes. Does not: read items (reading.py, tail.py).
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOLCK, ENOSYS, ENOTSUP
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import msgspec

from flamestream.fenced.decisions import Decisions
from flamestream.fenced.log import framed, read_body, scan
from flamestream.model.decoding import from_msgpack
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, Slot, WorkerId
from flamestream.store.folder import sync_folder, write_all

FORMAT: Final = 1
MOST_LOGS: Final = 1_000_000
_NO_LOCKS: Final = (ENOLCK, ENOSYS, ENOTSUP)
"""Errors of a file system that has no locks, as NFS may be."""
_LOG_NAME: Final = re.compile(r"attempt-(\d+)-(\d+)-(.+)-(\d+)\.log")
_FENCE_NAME: Final = re.compile(r"(\d{10})-(\d{10})\.(announced|record)")


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """The place of a slot's last bundle: the record at byte `start` of `log`."""

    log: str
    start: int


class FenceRecord(msgspec.Struct, frozen=True, array_like=True):
    """The decision under a fence: what counts of everything older."""

    fence: Fence
    lengths: dict[str, int]
    """Bytes that count of every older log that does."""
    last: dict[Slot, Pointer]


class Owner(msgspec.Struct, frozen=True, array_like=True):
    """The job and sink that a folder belongs to, and the format it is in."""

    version: int
    job: str
    sink: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Logs in the order of their fences, with the length of each that counts, and where each slot's last
    bundle is."""

    lengths: dict[str, int]
    last: dict[Slot, Pointer]


class FencedFolder(Decisions[Fence, FenceRecord]):
    """The folder of one files sink. All calls block."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._fences = root / "fences"

    # --- opening --------------------------------------------------------------------------------------------

    def claim(self, job: str, sink: str) -> None:
        """Create the folder if it isn't there. Raises UserError if it is another sink's."""
        self._fences.mkdir(parents=True, exist_ok=True)
        mine = Owner(FORMAT, job, sink)
        self._create_file(self.root / "sink.msgpack", msgspec.msgpack.encode(mine))
        found = self.owner()
        if found != mine:
            raise UserError(
                f"{self.root} holds the output of job {found.job!r}, sink {found.sink!r} (format "
                f"{found.version}); give sink {sink!r} of job {job!r} a folder of its own"
            )

    def owner(self) -> Owner:
        """The job and sink that the folder belongs to. Raises Corrupt if that cannot be read."""
        body = _body_of(self.root / "sink.msgpack")
        try:
            return from_msgpack(body, Owner)
        except msgspec.DecodeError as error:
            raise Corrupt(
                f"{self.root / 'sink.msgpack'} is not of a FlameStream sink: {error}; "
                "is this the right folder?"
            ) from error

    def open(self, fence: Fence) -> Counted:
        """Refuse everything older than `fence` from now on, for every slot. Raises Fenced if there is a newer
        one."""
        record = self.decide(fence, lambda before: self._proposal(fence, before))
        # Our announcement and record say all that the older ones did: whoever misses one of them is refused.
        self._forget_before(fence)
        seen = _seen_of(self.root, self._life(), fence)
        seen.counted = self._with_logs_of(record, seen.counted)
        return seen.counted

    def log_for(self, fence: Fence, writer: WorkerId, counted: Counted) -> tuple[int, int]:
        """A descriptor of a log to write on in, and the byte at which. `counted`: as `open` gave it."""
        mine = f"attempt-{fence.attempt}-{fence.layout}-{quote(writer, safe='')[:150]}"
        logs = ordered_logs(name for name in counted.lengths if _writer(name) == mine)
        if logs and (found := self._whole(logs[-1], counted)) is not None:
            return found
        return self._new_log(mine), 0

    def _life(self) -> tuple[int, int]:
        found = os.stat(self.root / "sink.msgpack")
        return found.st_ino, found.st_mtime_ns

    def _whole(self, name: str, counted: Counted) -> tuple[int, int] | None:
        """The log of an earlier opening, if all of it counts and nobody has it open."""
        fd, length = _open_alone(self.root / name), counted.lengths[name]
        if fd is None:
            return None
        # (!) Behind a torn end records would be damage.
        if os.fstat(fd).st_size == os.lseek(fd, length, os.SEEK_SET):
            return fd, length
        os.close(fd)
        return None

    def _new_log(self, mine: str) -> int:
        for number in range(MOST_LOGS):
            with suppress(FileExistsError):
                fd = _open_alone(self.root / f"{mine}-{number}.log", os.O_CREAT | os.O_EXCL)
                if fd is not None:
                    return fd
        raise UserError(f"{self.root}: there are a million logs {mine}: move the folder away")

    # --- looking --------------------------------------------------------------------------------------------

    def newest_announced(self) -> Fence:
        """The newest fence that somebody has opened the folder under; NO_FENCE if nobody ever has."""
        return max(self._announced(), default=NO_FENCE)

    def counted(self) -> Counted:
        """Everything that counts now, for a reader. It counts for ever if `newest_announced` is still the
        same afterwards."""
        record = self.newest_record()
        return Counted({}, {}) if record is None else self._with_logs_of(record)

    def newest_record(self) -> FenceRecord | None:
        """The decision under the newest fence that has one; None before the first."""
        found = self.newest()
        return None if found is None else found[1]

    def logs_of(self, fence: Fence) -> list[str]:
        """Names of the logs that were begun under `fence` so far, each writer's in the order in which it began
        them."""
        # (!) By number: as a text 10 is before 2, and a slot's last bundle would be an older one.
        found = ordered_logs(filter(_LOG_NAME.fullmatch, os.listdir(self.root)))
        return [name for name in found if fence_of(name) == fence]

    # --- fenced.decisions.Decisions -------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return str(self.root)

    def _announce(self, fence: Fence) -> None:
        # Without O_EXCL: every worker of the attempt announces the same fence.
        os.close(os.open(self._path(fence, "announced"), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        sync_folder(self._fences)

    def _announced(self) -> list[Fence]:
        return [fence for fence, _ in self._known()]

    def _decided(self) -> list[Fence]:
        return [fence for fence, kind in self._known() if kind == "record"]

    def _decision(self, fence: Fence) -> FenceRecord | None:
        path = self._path(fence, "record")
        try:
            return from_msgpack(_body_of(path), FenceRecord)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise Corrupt(f"{path} was written by another version: {error}") from error

    def _create(self, fence: Fence, decision: FenceRecord) -> None:
        self._create_file(self._path(fence, "record"), msgspec.msgpack.encode(decision))

    def _replaced(self, newest: Fence, fence: Fence) -> str:
        taken = (
            f"attempt {newest.attempt} (layout {newest.layout}) has taken over from {fence.attempt} "
            f"({fence.layout})"
        )
        return f"{self.root}: {taken}"

    def _proposal(self, fence: Fence, before: tuple[Fence, FenceRecord] | None) -> FenceRecord:
        if before is None:
            return FenceRecord(fence, {}, {})
        counted = self._with_logs_of(before[1])
        for name in counted.lengths.keys() - before[1].lengths.keys():
            # it may not be on the disk yet what the record is going to say counts
            _sync_file(self.root / name)
        return FenceRecord(fence, counted.lengths, counted.last)

    def _with_logs_of(self, record: FenceRecord, before: Counted | None = None) -> Counted:
        """Everything that `record` counts, and behind it what is whole in the logs of its own fence. `before`:
        the same, as it was found earlier."""
        known = before or record
        counted = Counted({**known.lengths}, {**known.last})
        for name in self.logs_of(record.fence):
            path, start = self.root / name, counted.lengths.get(name, 0)
            with FileIO(path) as file:
                counted.lengths[name] = start = start if os.fstat(file.fileno()).st_size >= start else 0
                for found in scan(file, str(path), start):
                    counted.lengths[name] = found.end
                    counted.last.update(
                        (slot, Pointer(name, found.start)) for slot, *_ in found.delivery.bundles
                    )
        return counted

    def _forget_before(self, fence: Fence) -> None:
        for older, kind in self._known():
            if older < fence:
                self._path(older, kind).unlink(missing_ok=True)

    # --- files ----------------------------------------------------------------------------------------------

    def _known(self) -> list[tuple[Fence, str]]:
        names = os.listdir(self._fences)
        return [
            (_fence(found[1], found[2]), found[3]) for found in map(_FENCE_NAME.fullmatch, names) if found
        ]

    def _path(self, fence: Fence, kind: str) -> Path:
        return self._fences / f"{fence.attempt:010}-{fence.layout:010}.{kind}"

    def _create_file(self, path: Path, body: bytes) -> None:
        """Create-if-absent, whole and durable."""
        temporary = path.with_name(f".{uuid4().hex}.tmp")
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, framed(body))
            os.fsync(fd)
            # fails if the name exists: `rename` would replace what another has decided (!)
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.close(fd)
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)  # also if it was there: its creator may have died before this


@dataclass(slots=True)
class _Seen:
    """The answer of this process's last opening under a fence. Replaced whole (!): two threads may open at
    once."""

    counted: Counted | None = None


@lru_cache(maxsize=8)
def _seen_of(root: Path, life: tuple[int, int], fence: Fence) -> _Seen:
    """Holds an opening's answer for the next: so who opens one folder again and again, as tasks of batches do,
    reads each byte once. `life`: another one of a folder that was removed and made again."""
    return _Seen()


def _writer(name: str) -> str:
    return name.rpartition("-")[0]


def _open_alone(path: Path, new: int = 0) -> int | None:
    """A descriptor of a log that nobody else writes on in; None if somebody may. `new`: flags that make it."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | new, 0o666)
    try:
        if new:
            sync_folder(path.parent)
        # (!) Without waiting: a log that was just made may be another's by now, who found it empty.
        flock(fd, LOCK_EX | LOCK_NB)
        return fd
    except OSError as error:
        unknown = error.errno in _NO_LOCKS
        if new and unknown:
            return fd  # nobody writes on in any: each opening has a log of its own
        os.close(fd)
        if unknown or isinstance(error, BlockingIOError):
            return None
        raise


def _fence(attempt: str, layout: str) -> Fence:
    return Fence(Attempt(int(attempt)), LayoutVersion(int(layout)))


def _body_of(path: Path) -> bytes:
    with FileIO(path) as file:
        body = read_body(file, 0)
    if body is None:
        raise Corrupt(f"{path} is damaged; restore it from a backup")
    return body


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fence_of(log: str) -> Fence:
    """The fence that a log was written under. Raises ValueError for what is no log's name."""
    found = _LOG_NAME.fullmatch(log)
    if found is None:
        raise ValueError(f"{log} is not the name of a log")
    return _fence(found[1], found[2])


def ordered_logs(names: Iterable[str]) -> list[str]:
    """The logs, oldest fence first; within a fence a slot has one writer, whose logs are in the order of
    their numbers."""

    def order(name: str) -> tuple[Fence, str, int]:
        found = _LOG_NAME.fullmatch(name)
        assert found is not None, f"{name} is not the name of a log"
        return _fence(found[1], found[2]), found[3], int(found[4])

    return sorted(names, key=order)
