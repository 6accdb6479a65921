"""The reader of a rolling sink: every item that was acknowledged when reading began, in the total order.

A reader creates nothing. It reads the chain, then the segments of every log that is not closed, newest logs
first (a slot's later bundles are in a newer log only if the older one is sealed, so what is seen of a slot
has no gap), then the chain again: if it has grown, segments may have gone into parts meanwhile, and it looks
again.

Keeps: of no slot a bundle is missing below its last. Does not: follow a sink that grows while it is read, or
put bundles in order whose items are not: that is what an audit looks at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from flamestream.connectors.rolling.chain import Chain, Part
from flamestream.connectors.rolling.opening import owner
from flamestream.connectors.rolling.parts import PartFormat, part_format
from flamestream.connectors.rolling.rolling import Numbered, rows_of
from flamestream.connectors.rolling.rows import Row
from flamestream.connectors.rolling.segments import Segment, listed, segment_at
from flamestream.fenced.reading import check_owner
from flamestream.model.errors import Corrupt
from flamestream.ports import ObjectStore

_LOOKS: Final = 50


@dataclass(frozen=True, slots=True)
class Held:
    """The parts and, by log, the segments that a sink holds at a moment."""

    parts: list[Part]
    segments: list[list[Numbered]]


def rows(store: ObjectStore, where: str, of: tuple[str, str] | None = None) -> Iterator[Row]:
    """All items in the total order. Raises UserError if they are not `of` a job and sink."""
    mine = owner(store)
    if of is not None:
        check_owner(f"{where}.path", of, (mine.job, mine.sink))
    form = part_format(mine.format, mine.type, f"{where}.type")
    held = look(store)
    streams: list[Iterable[Row]] = [
        _of_parts(store, form, parts) for parts in _one_after_the_other(held.parts)
    ]
    streams += [_in_order(segments) for segments in held.segments]
    bundles: dict[int, set[int]] = {}
    for row in merge(*streams, key=_place):
        bundles.setdefault(row[1], set()).add(row[2])
        yield row
    # by then: where bundles overlap, which an audit is to see, the order of items is not theirs
    for slot, numbers in bundles.items():
        if len(numbers) < max(numbers):
            missing = next(number for number in range(1, max(numbers)) if number not in numbers)
            raise Corrupt(
                f"bundle {missing} of slot {slot} is not there, and {max(numbers)} is: is a file missing?"
            )


def look(store: ObjectStore) -> Held:
    """Parts and segments of one moment."""
    chain = Chain(store)
    chain.refresh()
    chain.check_end()
    for _ in range(_LOOKS):
        before = chain.state.index
        logs = sorted(chain.state.logs.items(), reverse=True)
        segments = [_segments(store, log, open_log.absorbed) for log, open_log in logs]
        if chain.refresh().index == before:
            # The chain has not grown meanwhile, so what is missing is in no new part either.
            if any(found is None for found in segments):
                raise Corrupt("segments are missing that no part has; restore them from a backup")
            return Held(list(chain.parts()), [found for found in segments if found])
    raise Corrupt("parts are made faster than they can be listed")


def _segments(store: ObjectStore, log: int, absorbed: int) -> list[Numbered] | None:
    """The segments behind `absorbed`; None if one is gone."""
    found: list[Numbered] = []
    for number in [number for number in listed(store, log) if number > absorbed]:
        segment = segment_at(store, log, number)
        if segment is None or number != absorbed + len(found) + 1:
            return None
        if isinstance(segment, Segment):
            found.append((number, segment.bundles))
    return found


def _one_after_the_other(parts: list[Part]) -> list[list[Part]]:
    """Parts in as few streams as there can be without overlap in a stream, so that few parts are open at
    once."""
    streams: list[list[Part]] = []
    for part in sorted(parts, key=lambda part: part.least):
        fitting = next((stream for stream in streams if stream[-1].most < part.least), None)
        if fitting is None:
            streams.append([part])
        else:
            fitting.append(part)
    return streams


def _of_parts(store: ObjectStore, form: PartFormat, parts: list[Part]) -> Iterator[Row]:
    for part in parts:
        yield from form.rows(store.get(part.file), part.file)


def _in_order(segments: list[Numbered]) -> Iterator[Row]:
    found = [row for _, bundles in segments for row in rows_of(bundles)]
    yield from sorted(found, key=_place)


def _place(row: Row) -> tuple[bytes, int]:
    """The order of rows: by meta; where an item is there twice, the older bundle first."""
    return row[0], row[2]
