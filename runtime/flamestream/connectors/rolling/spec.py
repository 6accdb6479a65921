"""The rolling sink of a manifest.

Keeps: what is checked here can be written. Does not: open anything.
"""

from typing import Literal

import msgspec


class Rolling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Files of rows in a folder or in S3, which belongs to this sink alone."""

    path: str
    """A folder, or s3://bucket/prefix?endpoint=..."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """Of the files."""
    type: str | None = None
    """The class of the results: its fields become columns; else a result is JSON in one column."""
    roll_bytes: int = 64 << 20
    """A file is made of about so many bytes of encoded results ..."""
    roll_seconds: float = 60.0
    """... or of what came in this time."""
    segment_seconds: float = 0.1
    """At most one object for what is not in a file yet in this time, of each worker."""

    def __post_init__(self) -> None:
        if "://" in self.path and not self.path.startswith("s3://"):
            raise ValueError(f"`path`: {self.path!r} has an unknown scheme; write a folder or s3://bucket/prefix?endpoint=...")
        if not 1 << 10 <= self.roll_bytes <= 1 << 30:
            raise ValueError("`rollBytes` is from 1 KiB to 1 GiB: it is how much a worker holds in memory")
        if self.roll_seconds <= 0 or self.segment_seconds < 0:
            raise ValueError("`rollSeconds` must be above 0, and `segmentSeconds` not below")
