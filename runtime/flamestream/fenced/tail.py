"""Following a files sink while it grows: every item once, from any cursor on, through any number of
recoveries.

A cursor is a short text that says exactly which items were given: a fence, below which every log was read to
its end, and how far each log from there on was read. It is all that a reader has to keep, and any process
that sees the folder can go on from it.

    3.1/w5-0@1234+2/w6-0@2345       of attempt 3: log w5-0 up to byte 1234 and two items further, w6-0 up to
                                    byte 2345

Older fences' logs are read up to the length that counts, before any newer one's. Of the newest fence's logs
only what was whole before no newer fence was announced is given: whoever takes over finds it, so it counts
for ever (fences.py).

Keeps: per slot, items in their order, each once; what is given is never taken back. Does not: order slots
among each other, or wait.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import FileIO
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from flamestream.fenced.fences import FencedFolder, FenceRecord, fence_of, ordered_logs
from flamestream.fenced.log import end_of, scan
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.model.payload import decode_items

# Clients send them: the parts are bounded (a start fits a seek), and what names a log is only looked up among
# those that are there.
_CURSOR: Final = re.compile(r"(\d{1,10})\.(\d{1,10})((?:/[^/@]{1,200}@\d{1,18}(?:\+\d{1,10})?){0,1000})")
_POSITION: Final = re.compile(r"([^/@]+)@(\d+)(?:\+(\d+))?")


@dataclass(frozen=True, slots=True)
class Given:
    """An item, and the cursor behind it."""

    cursor: str
    meta: Meta
    slot: Slot
    sequence: SequenceNumber
    payload: Any


@dataclass(slots=True)
class _Room:
    """The number of items and bytes that may still be given in one call."""

    items: int
    size: int

    @property
    def left(self) -> bool:
        return self.items > 0 and self.size > 0

    def take(self, size: int) -> None:
        self.items -= 1
        self.size -= size


@dataclass(slots=True)
class _Place:
    start: int = 0
    """The byte at which the next record starts."""
    items: int = 0
    """The number of that record's items that were given."""


@dataclass(slots=True)
class Cursor:
    """The items that were given, as a fence and a place in each log from there on."""

    floor: Fence = NO_FENCE
    """Every log of an older fence was read to its end."""
    places: dict[str, _Place] = field(default_factory=dict)

    def copy(self) -> "Cursor":
        """Another cursor at the same place."""
        return Cursor(self.floor, {log: replace(place) for log, place in self.places.items()})

    def __str__(self) -> str:
        parts = [f"{self.floor.attempt}.{self.floor.layout}"]
        for log, place in self.places.items():
            fence = fence_of(log)
            short = log.removesuffix(".log").removeprefix(f"attempt-{fence.attempt}-{fence.layout}-")
            ahead = f"{fence.attempt}.{fence.layout}!" if fence != self.floor else ""
            parts.append(f"{ahead}{short}@{place.start}" + (f"+{place.items}" if place.items else ""))
        return "/".join(parts)

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The cursor that a text stands for. Raises UserError if it stands for none."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise UserError(f"{text!r:.100} is not a cursor")
        cursor = cls(Fence(Attempt(int(found[1])), LayoutVersion(int(found[2]))))
        for name, start, items in _POSITION.findall(found[3]):
            ahead, _, short = name.rpartition("!")
            attempt, _, layout = (ahead or f"{found[1]}.{found[2]}").partition(".")
            log = f"attempt-{attempt}-{layout}-{short}.log"
            try:
                fence_of(log)
            except ValueError:
                raise UserError(f"{text!r:.100} is not a cursor") from None
            cursor.places[log] = _Place(int(start), int(items or 0))
        return cursor


class Tail:
    """A reader that goes on from a cursor. All calls block."""

    def __init__(self, root: Path, cursor: Cursor) -> None:
        self._folder = FencedFolder(root)
        self._cursor = cursor
        self._logs: list[str] = []
        self._lengths: dict[str, int] = {}

    @property
    def cursor(self) -> str:
        """The cursor behind everything that was given."""
        return str(self._cursor)

    def next(self, most: int, size: int = 1 << 30) -> list[Given]:
        """Up to `most` items, and about `size` bytes of them and their cursors: the last one may have any
        size. Fewer if no more are there now. Raises Corrupt, or UserError for a cursor of another folder."""
        record = self._record()
        if record is None:
            return []
        if record.fence < self._cursor.floor:
            raise UserError(
                f"the cursor is of attempt {self._cursor.floor.attempt}, and {self._folder.root} has seen "
                f"only {record.fence.attempt}"
            )
        room = _Room(most, size)
        given = self._older(record, room)
        return given if given else self._newest(record, room)

    def to_the_end(self) -> None:
        """Move behind everything that is there now, ungiven. Reads no records, and of the logs what is new
        since the cursor.

        If a newer attempt is about to take over, what it does not count is given again from its own logs,
        which are behind this end.
        """
        record = self._record()
        if record is None:
            return
        places = {log: place for log, place in self._cursor.places.items() if fence_of(log) >= record.fence}
        for log in self._folder.logs_of(record.fence):
            with FileIO(self._folder.root / log) as file:
                places[log] = _Place(end_of(file, places[log].start if log in places else 0))
        self._cursor.floor, self._cursor.places = max(self._cursor.floor, record.fence), places

    def _record(self) -> FenceRecord | None:
        """The newest decision; None if nobody has opened the sink yet."""
        try:
            return self._folder.newest_record()
        except FileNotFoundError:
            return None

    def _older(self, record: FenceRecord, room: _Room) -> list[Given]:
        """The next items of the fences from the floor to the newest, in their order, as far as they count."""
        logs = [log for log in record.lengths if self._cursor.floor <= fence_of(log) < record.fence]
        for fence, group in groupby(ordered_logs(logs), key=fence_of):
            given: list[Given] = []
            for log in group:
                if room.left:
                    given += self._read(log, record.lengths[log], room)
            if given:
                return given
            self._pass(fence)
        if self._cursor.floor < record.fence:
            self._cursor.floor = record.fence
            self._cursor.places = {
                log: place for log, place in self._cursor.places.items() if fence_of(log) >= record.fence
            }
        return []

    def _pass(self, fence: Fence) -> None:
        """Move the floor above `fence`, of which nothing is left to give."""
        self._cursor.places = {
            log: place for log, place in self._cursor.places.items() if fence_of(log) > fence
        }
        # the least fence above it, whether or not there is one
        self._cursor.floor = max(self._cursor.floor, Fence(fence.attempt, LayoutVersion(fence.layout + 1)))

    def _newest(self, record: FenceRecord, room: _Room) -> list[Given]:
        before = self._cursor.copy().places
        given: list[Given] = []
        for log in ordered_logs(self._folder.logs_of(record.fence)):
            if room.left:
                given += self._read(log, None, room)
        # Looked at behind the reading: what was whole before a newer fence was announced will be counted (!).
        if given and self._folder.newest_announced() != record.fence:
            self._cursor.places = before  # somebody takes over, and decides what of it counts
            return []
        return given

    def _read(self, log: str, end: int | None, room: _Room) -> list[Given]:
        place = self._cursor.places.setdefault(log, _Place())
        if end is not None and place.start >= end:
            return []
        try:
            with FileIO(self._folder.root / log) as file:
                return list(self._items(log, file, place, end, room))
        except FileNotFoundError:
            raise Corrupt(f"{self._folder.root / log} is gone; restore it from a backup") from None

    def _items(self, log: str, file: FileIO, place: _Place, end: int | None, room: _Room) -> Iterator[Given]:
        for record in scan(file, log, place.start, end):
            items = [
                (slot, sequence, item)
                for slot, sequence, _, data in record.delivery.bundles
                for item in decode_items(data)
            ]
            # An even share of the record: near enough for a bound, and nothing has to be encoded for it.
            each = (record.end - record.start) // max(1, len(items))
            skipped = place.items
            for number, (slot, sequence, (meta, payload)) in enumerate(items[skipped:], skipped + 1):
                place.items = number
                if number == len(items):
                    place.start, place.items = record.end, 0
                cursor = str(self._cursor)
                yield Given(cursor, Meta(meta), slot, sequence, payload)
                room.take(each + len(cursor))
                if not room.left:
                    return
