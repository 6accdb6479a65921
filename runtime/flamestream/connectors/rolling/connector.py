"""The rolling kind of a manifest: what it may say, and what the engine asks of it.

Keeps: what is checked here can be written. Does not: claim a place (opening.py).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from flamestream.connectors.kit.connector import Connector, SinkContext, SinkSettings
from flamestream.connectors.kit.ownership import Owned, remove_files
from flamestream.connectors.rolling.opening import OWNER, owner
from flamestream.connectors.rolling.parts import part_format
from flamestream.connectors.rolling.reading import rows
from flamestream.fenced.reading import Item
from flamestream.model.errors import Corrupt, Retryable
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.ports import Consumer
from flamestream.store.places import store_from


class Rolling(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Files of rows in a folder or in S3, which belongs to this sink alone."""

    file_settings = ("path",)
    holder = "place"
    reads_back = True
    path: str
    """A folder, or s3://bucket/prefix?endpoint=..."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """The format of the files."""
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
            raise ValueError(
                f"`path`: {self.path!r} has an unknown scheme; write a folder or s3://bucket/prefix?endpoint=..."
            )
        if not 1 << 10 <= self.roll_bytes <= 1 << 30:
            raise ValueError("`rollBytes` is from 1 KiB to 1 GiB: it is how much a worker holds in memory")
        if self.roll_seconds <= 0 or self.segment_seconds < 0:
            raise ValueError("`rollSeconds` must be above 0, and `segmentSeconds` not below")

    def check_application(self, where: str) -> None:
        part_format(self.format, self.type, f"{where}.rolling.type")

    def consumer(self, context: SinkContext) -> Consumer:
        from flamestream.connectors.rolling.consumer import RollingConsumer  # it is made with this

        where = f"{context.where}.rolling"
        return RollingConsumer(
            self, where, context.name, context.writer, context.job, context.post, context.reactor
        )

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        there = rows(
            store_from(self.path, setting=f"{where}.rolling.path"),
            f"{where}.rolling",
            (job, sink) if job else None,
        )
        return (
            (Meta(meta), Slot(slot), SequenceNumber(sequence), payload)
            for meta, slot, sequence, payload in there
        )

    def owned(self) -> Owned | None:
        with suppress(Retryable, Corrupt):  # there is no such place yet
            there = owner(store_from(self.path))
            return Owned(self.path, there.job, there.sink)
        return None

    def remove(self) -> None:
        store = store_from(self.path)
        names = [name for name in store.names("") if name.startswith(("part-", "_flamestream/"))]
        store.delete(*[name for name in names if name != OWNER])
        store.delete(OWNER)  # last: what was interrupted can be begun again
        if "://" not in self.path:
            remove_files(Path(self.path), ())


ROLLING: Final = Connector("rolling", sink=Rolling)
