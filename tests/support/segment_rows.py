"""Segments from rows and back to rows, for tests that compare them one by one; the product reads chains
(store/segment.py)."""

from collections.abc import Sequence

from flamestream.core.protocol.chain import Row
from flamestream.store.segment import read_segment, table_of, written


def encode_segment(rows: Sequence[Row]) -> bytes:
    """A segment's bytes."""
    return bytes(written(table_of(rows)))


def decode_segment(data: bytes, name: str = "segment") -> list[Row]:
    """Its rows, sorted. Raises Corrupt that names `name`."""
    return list(map(Row, *(column.to_pylist() for column in read_segment(data, name).columns)))
