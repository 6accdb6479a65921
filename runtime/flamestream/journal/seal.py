"""Which journal entries count: files, seals and fences of one front.

    front-3/attempt-00000007-0.log   what attempt 7 wrote, in files 0, 1, ...
    front-3/seal-00000007            what counts of all older attempts, created once
    front-3/fences/00000007          attempt 7 is about to seal, or has

Which of them counts is decided as in every folder that attempts write to (fenced/decisions.py): a seal is an
attempt's decision. It names a length for every file of the older attempts; files that it does not name do not
count. A batch that failed half-way is written again to a new file: entries repeat, and the first one is
taken.

Keeps: what counted once counts for ever, in every later attempt; a file that is needed and missing is Corrupt
(each file's head names the last entry before it). Does not: write entries (journal/folder.py). Format:
docs/reference/formats.md.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import msgspec

from flamestream.core.protocol.events import Entry
from flamestream.fenced.decisions import Decisions
from flamestream.journal.file import Scan, scan
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Attempt
from flamestream.model.time import START, FrontId, Time
from flamestream.store.folder import LocalStore, unavailable

_LOG: Final = re.compile(r"attempt-(\d{8})-(\d+)\.log")
_SEAL: Final = re.compile(r"seal-(\d{8})")


class SealedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of which the first `length` bytes count; the last entry in them is at `last`."""

    name: str
    length: int
    last: Time


Files = tuple[SealedFile, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """The answer of a seal."""

    files: Files
    entries: list[Entry]
    strays: tuple[str, ...]
    """Files that don't count and older seals: they may go at the next trim."""

    @property
    def last(self) -> Time:
        """Time of the newest entry that counts, at whatever time."""
        return max((file.last for file in self.files), default=START)


class FrontFolder(Decisions[Attempt, Files]):
    """The folder of one front in a journal."""

    def __init__(self, store: LocalStore, front: FrontId) -> None:
        self._store = store
        self.name = f"front-{front}"
        self.path = store.root / self.name
        self._fences = self.path / "fences"

    def seal(self, attempt: Attempt, cut: Time) -> Counted:
        """Fix what counts of older attempts, and read what lies at or above `cut`. Raises Fenced if a newer
        attempt has begun to."""
        scans: dict[str, Scan] = {}
        files = self.decide(attempt, lambda before: self._lengths(before, cut, scans))
        return Counted(files, self._entries(files, cut, scans), self._strays(attempt, files))

    def everything(self, cut: Time = START) -> list[Entry]:
        """All entries from `cut` on that count now, oldest first. Raises Corrupt if some were trimmed."""
        scans: dict[str, Scan] = {}
        return self._entries(self._lengths(self.newest(), cut, scans), cut, scans)

    def next_log(self, attempt: Attempt) -> str:
        """A file name that `attempt` has not used."""
        used = [number for of, number, _ in self._logs() if of == attempt]
        return f"attempt-{attempt:08d}-{max(used, default=-1) + 1}.log"

    def remove(self, names: Iterable[str]) -> None:
        """Delete files of this folder; absent is fine."""
        for name in names:
            self._store.delete(f"{self.name}/{name}")

    # --- lengths --------------------------------------------------------------------------------------------

    def _lengths(self, before: tuple[Attempt, Files] | None, cut: Time, scans: dict[str, Scan]) -> Files:
        """Lengths that the seal before fixed, and those of its attempt's files now. Trimmed files are left
        out, but for the newest."""
        if before is None:
            return ()
        attempt, fixed = before
        last = max((file.last for file in fixed), default=START)
        # A file above the cut stays listed though it is gone, to be Corrupt when it is read. So does the
        # newest one: the next file's head names its last time.
        kept = [file for file in fixed if file.last >= min(cut, last) or (self.path / file.name).exists()]
        scans |= {
            name: scan(self._read(name), f"{self.path}/{name}", cut)
            for of, _, name in self._logs()
            if of == attempt
        }
        return (*kept, *(SealedFile(name, found.length, found.last) for name, found in scans.items()))

    def _entries(self, files: Iterable[SealedFile], cut: Time, scans: dict[str, Scan]) -> list[Entry]:
        entries: list[Entry] = []
        before = START
        for file in files:
            if file.length and file.last >= cut:
                found = scans.get(file.name)
                # What was decided may be somebody else's look at the file, which saw more or less of it than
                # ours.
                if found is None or found.length != file.length:
                    found = self._scan_sealed(file, cut)
                self._check_chain(file.name, found.after, before, cut)
                entries += [entry for entry in found.entries if not entries or entry.time > entries[-1].time]
            if file.last != START:
                before = file.last
        return entries

    def _check_chain(self, name: str, after: Time, before: Time, cut: Time) -> None:
        """Raises Corrupt if a file before `name` is missing. `after`: the last entry that was durable when it
        was begun."""
        # a batch that failed may have left more before it than `after`, never less
        if after >= cut and after > before:
            raise Corrupt(
                f"journal {self.path}: a file before {name} is missing, with entries after {before} up to "
                f"{after}; restore it "
                "from a backup (if it was trimmed, the reader asked for more than is kept: set journal.keep)"
            )

    def _scan_sealed(self, file: SealedFile, cut: Time) -> Scan:
        data = self._read(file.name)
        if len(data) < file.length:
            raise Corrupt(
                f"journal {self.path}/{file.name} has {len(data)} bytes, sealed were {file.length}; restore "
                "it from a backup"
            )
        return scan(data[: file.length], f"{self.path}/{file.name}", cut, sealed=True)

    def _read(self, name: str) -> bytes:
        return self._store.get(f"{self.name}/{name}")

    # --- names ----------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except OSError as error:
            unavailable("list", self.path, error)

    def _logs(self) -> list[tuple[int, int, str]]:
        """(attempt, number, name), in the order they were written."""
        matches = (_LOG.fullmatch(name) for name in self._names())
        return sorted((int(m[1]), int(m[2]), m[0]) for m in matches if m)

    def _strays(self, attempt: Attempt, files: Files) -> tuple[str, ...]:
        counting = {file.name for file in files}
        logs = [name for of, _, name in self._logs() if of < attempt and name not in counting]
        seals = sorted(found for found in self._decided() if found < attempt)[:-1]
        fences = [f"fences/{name}" for name in os.listdir(self._fences) if int(name) < attempt]
        return (*logs, *map(_seal_name, seals), *fences)

    # --- fenced.decisions.Decisions -------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"journal {self.path}"

    def _announce(self, fence: Attempt) -> None:
        self._store.put_new(f"{self.name}/fences/{fence:08d}", b"")

    def _announced(self) -> list[Attempt]:
        return [Attempt(int(name)) for name in os.listdir(self._fences)]

    def _decided(self) -> list[Attempt]:
        return [Attempt(int(found[1])) for found in map(_SEAL.fullmatch, self._names()) if found]

    def _decision(self, fence: Attempt) -> Files | None:
        path = self.path / _seal_name(fence)
        try:
            # Not by way of the store: there an object that is not there yet is Corrupt.
            return _decode(path.read_bytes(), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            unavailable("read", path, error)

    def _create(self, fence: Attempt, decision: Files) -> None:
        self._store.put_new(f"{self.name}/{_seal_name(fence)}", _encode(decision))

    def _replaced(self, newest: Attempt, fence: Attempt) -> str:
        return (
            f"{self._where}: attempt {newest} has sealed it; this worker of attempt {fence} has been replaced"
        )


def _seal_name(attempt: Attempt) -> str:
    return f"seal-{attempt:08d}"


def _encode(files: Files) -> bytes:
    body = msgspec.json.encode(files)
    return b"%08x %s\n" % (crc32(body), body)


def _decode(data: bytes, name: str) -> Files:
    check, _, body = data.rstrip(b"\n").partition(b" ")
    if check != b"%08x" % crc32(body):
        raise Corrupt(f"journal seal {name} is damaged: its checksum is wrong; restore it from a backup")
    try:
        return from_json(body, Files)
    except msgspec.DecodeError as error:
        raise Corrupt(f"journal seal {name} was written by another version: {error}") from error
