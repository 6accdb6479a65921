"""The output of a files sink, cut into chunks that many readers can take at once.

A chunk is a stretch of whole records of one log. Cutting reads heads only: a record says how long it is.
Bundles of slots that nobody asked for are passed over without decoding an item.

Keeps: all chunks together are what counts at one moment, each bundle once. Does not: check that sequences
have no gap (who reads all of a slot can).
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.fences import FencedFolder, ordered_logs
from flamestream.fenced.log import HEADER, scan
from flamestream.fenced.reading import counted_now
from flamestream.model.errors import Corrupt

CHUNK_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole records of a log. Picklable."""

    log: str
    start: int
    end: int

    def bundles(self, slots: Collection[int] | None = None) -> Iterator[Bundle]:
        """Bundles of the chunk in their order, of `slots` only if given. Raises Corrupt."""
        try:
            with FileIO(self.log) as file:
                for record in scan(file, self.log, self.start, self.end):
                    for bundle in record.delivery.bundles:
                        if slots is None or bundle[0] in slots:
                            yield Bundle(*bundle)
        except FileNotFoundError:
            raise Corrupt(
                f"{self.log} is gone, and {self.end} bytes of it count; restore it from a backup"
            ) from None


def chunks_of(folder: Path, size: int = CHUNK_BYTES) -> list[Chunk]:
    """Everything that counts now. Raises Corrupt if it is not the folder of a files sink."""
    counted = counted_now(FencedFolder(folder))
    return [
        chunk
        for name in ordered_logs(counted.lengths)
        for chunk in _cut(folder / name, counted.lengths[name], size)
    ]


def _cut(path: Path, length: int, size: int) -> Iterator[Chunk]:
    start = at = 0
    try:
        with open(path, "rb", buffering=0) as file:
            while at < length:
                head = os.pread(file.fileno(), 4, at)
                at += HEADER + int.from_bytes(head, "big")
                if len(head) < 4 or at > length:
                    raise Corrupt(
                        f"{path}: the record at byte {start} is damaged, and there is more that counts; "
                        "restore it from a backup"
                    )
                if at - start >= size:
                    yield Chunk(str(path), start, at)
                    start = at
    except FileNotFoundError:
        raise Corrupt(f"{path} is gone, and {length} bytes of it count; restore it from a backup") from None
    if at > start:
        yield Chunk(str(path), start, at)
