"""The rows of a segment, for tests that compare them one by one; the product reads chains (adapters/segment.py)."""

from flamestream.adapters.segment import read_segment
from flamestream.core.chain import Row


def decode_segment(data: bytes, name: str = "segment") -> list[Row]:
    """Its rows, sorted. Raises Corrupt that names `name`."""
    return list(map(Row, *(column.to_pylist() for column in read_segment(data, name).columns)))
