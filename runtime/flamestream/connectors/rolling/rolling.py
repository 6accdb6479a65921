"""Segments become parts: of a worker's own log as it grows, and of older logs that their owners left.

A part ends where it has about `roll_bytes` of items, where its log ends, or where the next item would not
come behind the last one in the total order (so every part is sorted, and reading merges instead of sorting).

Keeps: the parts of a log follow each other without gap or overlap, whoever makes them (see the package's
docstring). Does not: need a fence.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from flamestream.connectors.rolling.chain import Chain, Closed, Decision, Part, State
from flamestream.connectors.rolling.parts import PartFormat
from flamestream.connectors.rolling.rows import Row
from flamestream.connectors.rolling.segments import Segment, listed, name_of, segment_at, size_of
from flamestream.fenced.log import Delivered
from flamestream.model.errors import Corrupt
from flamestream.model.payload import decode_items

Numbered = tuple[int, list[Delivered]]
"""A segment's number and bundles."""
LEAST: Final = b""


def part_name(log: int, first: int, ending: str) -> str:
    """The name of the part that begins with segment `first` of `log`."""
    return f"part-{log:012}-{first:012}.{ending}"


def close_log(chain: Chain, log: int, end: int, form: PartFormat, roll_bytes: int) -> None:
    """Make parts of all segments of a log that is sealed at `end`, and say that it is closed.

    Before that segments are deleted that someone left who died between a part and its deletions; the seal
    stays.
    """
    while (open_log := chain.refresh().logs.get(log)) is not None:
        if open_log.absorbed == end - 1:
            for number in listed(chain.store, log):
                if number < end:
                    chain.store.delete(name_of(log, number))
            chain.append(lambda state: Closed(log) if log in state.logs else None)
            return
        try:
            make_part(chain, log, read_segments(chain, log, open_log.absorbed + 1, end), form, roll_bytes)
        except HoldsMore:  # it was made when parts were bigger
            roll_bytes *= 2


def read_segments(chain: Chain, log: int, first: int, end: int) -> Iterator[Numbered]:
    """Segments `first` up to but not including `end`. Ends early if somebody else makes a part of them."""
    for number in range(first, end):
        segment = segment_at(chain.store, log, number)
        if not isinstance(segment, Segment):
            open_log = chain.refresh().logs.get(log)
            if open_log is not None and open_log.absorbed < number:
                raise Corrupt(
                    f"{name_of(log, number)} is missing, and no part has it; restore it from a backup"
                )
            return
        yield number, segment.bundles


def make_part(chain: Chain, log: int, segments: Iterable[Numbered], form: PartFormat, roll_bytes: int) -> int:
    """Make the part that begins with the first of `segments`. The number of the last segment that it holds; 0
    if there are no segments.

    Raises HoldsMore if the part is there and holds more than these.
    """
    draft = _Draft(roll_bytes)
    data = form.encoded(draft.take(segments))
    if not draft.numbered:
        return 0
    first = draft.numbered[0][0]
    name = part_name(log, first, form.ending)
    # (!) The name says where the part begins, so whoever is second finds it and goes on behind what it holds.
    if not chain.store.put_new(name, data):
        data = chain.store.get(name)
        draft.keep(_held(data, name, draft.numbered, form))
    last = draft.numbered[-1][0]
    part = Part(
        log, first, last, name, draft.rows, len(data), draft.least, draft.most, newest(draft.numbered)
    )
    # Part, decision, deletions, in this order (!): who dies between them leaves what the next one finds and
    # goes on with.
    chain.append(lambda state: _decided(state, part))
    for number in range(first, last + 1):
        chain.store.delete(name_of(log, number))
    return last


def newest(segments: Iterable[Numbered]) -> list[Delivered]:
    """The last bundle of each slot."""
    last = {bundle[0]: bundle for _, bundles in segments for bundle in bundles}
    return [last[slot] for slot in sorted(last)]


def rows_of(bundles: Iterable[Delivered]) -> list[Row]:
    """The items of a delivery in the total order."""
    rows = [
        (meta, int(slot), int(sequence), value)
        for slot, sequence, _, items in bundles
        for meta, value in decode_items(items)
    ]
    rows.sort(key=lambda row: row[0])
    return rows


def _decided(state: State, part: Part) -> Decision | None:
    """Nothing if it is in the chain already."""
    log = state.logs.get(part.log)
    return part if log is not None and log.absorbed < part.first else None


class _Draft:
    """A part under way. Holds the encoded segments and what the format holds, and decodes one segment at a
    time."""

    def __init__(self, roll_bytes: int) -> None:
        self._room = roll_bytes
        self.numbered: list[Numbered] = []
        self.rows = 0
        self.least = self.most = LEAST

    def take(self, segments: Iterable[Numbered]) -> Iterator[Row]:
        """The rows of the segments that the part holds: up to the one that is no room for, or that is not
        behind it in the order."""
        for number, bundles in segments:
            if self._room <= 0:
                return
            rows = rows_of(bundles)
            if rows and self.rows and rows[0][0] <= self.most:
                return
            self._room -= size_of(bundles)
            self.numbered.append((number, bundles))
            if rows:
                self.least = self.least if self.rows else rows[0][0]
                self.most = rows[-1][0]
                self.rows += len(rows)
                yield from rows

    def keep(self, count: int) -> None:
        """Only the first `count` segments: that is what the part that is there already holds."""
        self.numbered = self.numbered[:count]
        rows = [rows_of(bundles) for _, bundles in self.numbered]
        self.rows = sum(map(len, rows))
        self.most = max((found[-1][0] for found in rows if found), default=LEAST)


def _held(data: bytes, name: str, numbered: list[Numbered], form: PartFormat) -> int:
    """The number of these segments that the part holds, which somebody made of the first segments of the same
    log."""
    there = {(slot, sequence) for _, slot, sequence, _ in form.rows(data, name)}
    count = 0
    for _, bundles in numbered:
        bundle_ids = {(bundle[0], bundle[1]) for bundle in bundles}
        if not bundle_ids <= there:
            break
        there -= bundle_ids
        count += 1
    if there:
        raise HoldsMore(name)
    return count


class HoldsMore(Exception):
    """The part holds segments behind those that were looked at."""
