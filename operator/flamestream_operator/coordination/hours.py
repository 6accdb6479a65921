"""The last hour of a job's samples in memory, packed by the minute.

A minute's samples are columns of integers, each the difference to the one before, compressed: an hour of a job whose
figures are all noise takes 70 kB, of one that rests 12 kB, where plain columns would take 200 kB. The minute that is
not over is some 20 kB more.

Keeps: an hour at most, the newest; one thread adds while any other reads. Does not: outlive this process: another
leader's hour begins with it.
"""

import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

from flamestream.model.decoding import msgpack_decoder
from flamestream.node.samples import MOST, Sample

MINUTE: Final = 60
"""Samples that are packed together."""
DECIMALS: Final = {"items_in": 1, "items_out": 1, "gap_ms": 1, "busy": 3} | dict.fromkeys(
    ("p50_ms", "p99_ms", "release_p50_ms", "release_p99_ms"), 2
)
"""So many a sample has (node/samples.py); other columns are integers."""
_SCALES: Final = [10 ** DECIMALS.get(name, 0) for name in Sample.__struct_fields__]
_Column = list[int | None]
_columns: Final = msgpack_decoder(list[_Column])


class Hour:
    """The samples of one job."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[tuple[int, bytes], ...], list[Sample]] = ((), [])
        """Packed minutes, each with the moment of its last sample; and the minute that is not over. Replaced as one
        (!): who reads beside it sees each sample once."""

    def add(self, sample: Sample) -> None:
        """Take the newest sample."""
        packed, new = self._kept
        new.append(sample)
        if len(new) == MINUTE:
            self._kept = ((*packed, (sample.at, pack(new)))[-(MOST // MINUTE) :], [])

    def behind(self, moment: int = 0) -> list[Sample]:
        """Samples behind a moment, in microseconds since 1970."""
        packed, new = self._kept
        minutes = [unpack(minute) for last, minute in packed if last > moment]
        return [sample for minute in (*minutes, list(new)) for sample in minute if sample.at > moment]

    @property
    def size(self) -> int:
        """Bytes of what is packed."""
        return sum(len(minute) for _, minute in self._kept[0])


def pack(samples: Iterable[Sample]) -> bytes:
    """Some samples, in few bytes."""
    columns = zip(*map(msgspec.structs.astuple, samples), strict=True)
    return zlib.compress(
        msgspec.msgpack.encode(
            [_differences(column, scale) for column, scale in zip(columns, _SCALES, strict=True)]
        )
    )


def unpack(packed: bytes) -> list[Sample]:
    """The samples that were packed."""
    columns = map(_summed, _columns(zlib.decompress(packed)), _SCALES)
    names = Sample.__struct_fields__
    return [Sample(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _differences(column: Iterable[float | None], scale: int) -> _Column:
    found: _Column = []
    before = 0
    for value in column:
        if value is None:
            found.append(None)
        else:
            number = round(value * scale)
            found.append(number - before)
            before = number
    return found


def _summed(column: _Column, scale: int) -> list[float | None]:
    found: list[float | None] = []
    before = 0
    for number in column:
        if number is None:
            found.append(None)
        else:
            before += number
            found.append(before / scale if scale > 1 else before)
    return found
