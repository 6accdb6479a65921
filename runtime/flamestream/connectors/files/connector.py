"""The files kinds of a manifest: the sink, and what rows of Parquet were called before. The source is in
spec.py.

Keeps: a sink's folder is claimed when it is opened, and not before. Does not: write (kit/folder.py).
"""

from typing import Final

from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.kit.connector import Connector, SourceSettings
from flamestream.connectors.kit.folder import FolderSink


class FilesSinkSpec(FolderSink, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder, which belongs to this sink alone."""

    log = "path"


class ParquetSpec(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The kind that rows of Parquet were read by before: refused, with what to write."""

    path: str = "..."
    """The path that the refusal names."""

    def __post_init__(self) -> None:
        raise ValueError(
            f'write files: {{path: {self.path}, pattern: "**/*.parquet", format: parquet, tuples: true}} '
            "(and `columns`, if any)"
        )


FILES: Final = Connector("files", FilesSpec, FilesSinkSpec)
PARQUET: Final = Connector("parquet", source=ParquetSpec)
