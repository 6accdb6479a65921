"""The files kinds of a manifest: the sink, and what rows of Parquet were called before. The source is in spec.py.

Keeps: a sink's folder is claimed when it is opened, and not before. Does not: write (kit/folder.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.connector import Connector, SinkContext, SinkSettings, SourceSettings
from flamestream.connectors.kit.folder import Writing
from flamestream.connectors.kit.ownership import Owned, owner_of_logs, remove_logs
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.reading import Item, read_items
from flamestream.ports import Consumer


class FilesSinkSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder, which belongs to this sink alone."""

    file_settings = ("path",)
    holder = "place"
    reads_back = True
    log = "path"
    path: str
    """A folder, made if it is not there."""
    fsync: bool = True
    """False: what is acknowledged survives the process but not the machine."""

    def consumer(self, context: SinkContext) -> Consumer:
        writing = Writing(FencedFolder(Path(self.path)), self.fsync, context.job, context.name, context.writer)
        return BlockingConsumer(writing, context.name, context.post, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        return read_items(Path(self.path), (job, sink) if job else None)

    def owned(self) -> Owned | None:
        return owner_of_logs(self.path)

    def remove(self) -> None:
        remove_logs(self.path)


class ParquetSpec(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What rows of Parquet were called before: refused, with what to write."""

    path: str = "..."
    """No longer: see `files`."""

    def __post_init__(self) -> None:
        raise ValueError(
            f'write files: {{path: {self.path}, pattern: "**/*.parquet", format: parquet, tuples: true}} (and `columns`, if any)'
        )


FILES: Final = Connector("files", FilesSpec, FilesSinkSpec)
PARQUET: Final = Connector("parquet", source=ParquetSpec)
