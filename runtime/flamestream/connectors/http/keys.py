"""Which requests have entered, by their idempotency keys: a small log beside the journal, so that a client's
retry is not counted twice.

A request gets its offsets and is noted here, durably, before its records enter. Whether they entered the
journal decides: after a recovery the front says from which offset it goes on, and what is noted from there on
never happened.

    0000000003-0000000001-000000.keys
        {"start": 1200}                     offsets from 1200 on are noted here
        [1200, 2, "order-17", "0a1b..."]    first offset, records, key, body's hash

A file's lines count up to the start of the next file (by attempt, layout, part): so what a zombie adds to its
own file counts for nothing, and after a failed write the next part begins. A line without its end is torn and
counts for nothing. A part holds `remember` keys; the two newest parts are kept.

Keeps: the last `remember` keys, at least. Does not: fence (the journal does), or know records.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from flamestream.model.decoding import json_decoder
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Fence
from flamestream.store.folder import sync_folder, write_all

SUFFIX: Final = ".keys"


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A request that has entered."""

    first: int
    count: int
    key: str
    digest: str


class _Head(msgspec.Struct, frozen=True):
    start: int


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    start: int
    notes: list[Note]


_encode: Final = msgspec.json.Encoder().encode
_note: Final = json_decoder(Note)
_head: Final = json_decoder(_Head)


class KeyLog:
    """The keys of one front. All calls block."""

    def __init__(self, folder: Path, remember: int, fsync: bool) -> None:
        self._folder, self._remember, self._fsync = folder, remember, fsync
        self._fence = ""
        self._part = self._notes = 0
        self._fd = -1

    def open(self, fence: Fence, following: int) -> list[Note]:
        """The notes of what entered before offset `following`, oldest first. Later ones are of `fence`.
        Raises Corrupt, OSError."""
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        # Zeros in front: names must sort as fences do.
        mine = f"{fence.attempt:010}-{fence.layout:010}"
        older = (_read(path) for path in sorted(self._folder.glob(f"*{SUFFIX}")) if path.name < mine)
        files = [file for file in older if file is not None]
        found: dict[int, Note] = {}
        limit = following
        for file in reversed(files):
            limit_of_older = min(limit, file.start)
            found |= {note.first: note for note in file.notes if note.first < limit}
            limit = limit_of_older
        notes = [found[first] for first in sorted(found)][-self._remember :]
        self._fence, self._part = mine, 0
        # older files still count below that, so a crash before their end loses nothing
        self._begin(following)
        self._write(notes)
        self._next_part(following)
        for file in files:
            file.path.unlink(missing_ok=True)
        return notes

    def append(self, notes: Sequence[Note]) -> None:
        """Durable when it returns. After an OSError it may be called again."""
        if self._fd < 0 or self._notes >= self._remember:
            self._next_part(notes[0].first)
        try:
            self._write(notes)
        except OSError:
            self.close()  # a part of it may be there: the next one begins a new file
            raise

    def close(self) -> None:
        """Let the file go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _next_part(self, start: int) -> None:
        self.close()
        self._part += 1
        self._begin(start)
        for part in range(self._part - 1):
            self._path(part).unlink(missing_ok=True)

    def _begin(self, start: int) -> None:
        path = self._path(self._part)
        self._fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self._notes = 0
        self._put(_encode(_Head(start)) + b"\n")
        if self._fsync:
            sync_folder(self._folder)

    def _write(self, notes: Sequence[Note]) -> None:
        if notes:
            self._put(b"".join(_encode(note) + b"\n" for note in notes))
            self._notes += len(notes)

    def _put(self, data: bytes) -> None:
        write_all(self._fd, data)
        if self._fsync:
            os.fdatasync(self._fd)

    def _path(self, part: int) -> Path:
        return self._folder / f"{self._fence}-{part:06}{SUFFIX}"


def _read(path: Path) -> _File | None:
    """None if not even its first line is whole, or if whoever has taken over has deleted it."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    if not lines:
        return None
    try:
        file = _File(path, _head(lines[0]).start, [_note(line) for line in lines[1:]])
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"{path} is damaged ({error}): restore it, "
            "or delete it and accept that a retry may be counted twice"
        ) from None
    if any(later.first < note.first for note, later in pairwise(file.notes)):
        raise Corrupt(f"{path} is damaged: its offsets go back")
    return file
