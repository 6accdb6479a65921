"""The files source of a manifest: where (`path`: a folder or s3://...), what is in it (`format`), and how it
is found (listing, a list of names, or followed). The three are independent.

Keeps: a setting that means nothing with the others is an error. Does not: open anything.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec

from flamestream.connectors.files.arriving import ArrivingReader
from flamestream.connectors.files.documents import Documents
from flamestream.connectors.files.followed import FollowedReader
from flamestream.connectors.files.formats import Format
from flamestream.connectors.files.glob import Glob
from flamestream.connectors.files.lines import CsvRows, JsonRows, Lines, Text
from flamestream.connectors.files.listed import ListedReader
from flamestream.connectors.files.listing import LocalFiles, places
from flamestream.connectors.files.named import NamedFiles
from flamestream.connectors.files.parquet import Mapped, ParquetRows, Tuples
from flamestream.connectors.files.places import Files
from flamestream.connectors.kit.connector import Gives, SourceContext, SourceSettings, SourceTraits
from flamestream.connectors.kit.producer import Reader, ReadingProducer
from flamestream.connectors.kit.rows import Rows, row_class
from flamestream.connectors.kit.spec import MAX_RUN_LENGTH
from flamestream.model.errors import ManifestError, UserError
from flamestream.model.payloads.registry import name_of_type
from flamestream.model.records import Document
from flamestream.ports import Producer
from flamestream.store.places import parsed_s3

S3: Final = "s3://"
ROWS: Final = ("jsonl", "csv", "parquet")


class FilesSpec(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Files of a folder or of S3; a record is a file, a line or a row."""

    file_settings = ("path", "paths")
    grows = True
    path: str | None = None
    """A folder, a file, or s3://bucket/prefix?endpoint=...; this or `paths` is required."""
    paths: list[str] = []
    """Several folders, files or URLs instead of `path`."""
    pattern: str = "**/*"
    """Which names below it; **/ is any number of folders."""
    manifest: str | None = None
    """A file below `path` that lists the names to read, in their order; instead of a listing."""
    follow_links: bool = False
    """Links in the folder may lead out of it; else such a link is skipped, and told once."""
    follow: bool = False
    """Go on with what comes later."""
    format: Literal["text", "jsonl", "csv", "parquet"] = "text"
    """The format of a file's content; a name that ends with .gz is unpacked (not Parquet)."""
    records: Literal["files", "lines"] | None = None
    """Whether a record of text is a file (default) or a line."""
    encoding: str = "utf-8"
    """The encoding of text, JSON lines and CSV."""
    type: str | None = None
    """Rows become instances of this class of the application; else fs.Map."""
    columns: list[str] = []
    """The columns to read of CSV and Parquet, else all; the names of the columns of CSV without header."""
    tuples: bool = False
    """A row of Parquet is a tuple of its columns, or the value itself if `columns` names one."""
    delimiter: str = ","
    """The character between two values of CSV."""
    header: bool = True
    """The first line of CSV has the names of the columns."""
    multiline: bool = False
    """Values of CSV may have newlines in quotes."""

    def __post_init__(self) -> None:
        if (self.path is None) == (not self.paths):
            raise ValueError("give either `path` or `paths`")
        if len(set(self.paths)) < len(self.paths):
            raise ValueError("`paths` names a path twice")
        self._check_places()
        self._check_encoding()
        self._check_format()

    def traits(self, where: str) -> SourceTraits:
        if self.follow:
            return SourceTraits(
                timed=False, run_length=0, replayable=True, bounded=False, in_sequence=self.whole
            )
        return SourceTraits(
            timed=True, run_length=MAX_RUN_LENGTH if self.by_line else 1, replayable=True, bounded=True
        )

    def check_application(self, where: str) -> None:
        row_class(self.type, f"{where}.files.type")

    def producer(self, context: SourceContext) -> Producer:
        return ReadingProducer(
            reader(self, context.name, context.where), context.front, context.post, context.reactor
        )

    def gives(self) -> Gives:
        if self.format == "text":
            return Gives(None if self.by_line else name_of_type(Document))
        return Gives(self.type, not self.tuples, self.columns)

    def sample(self, records: int, where: str) -> "FilesSpec | None":
        if self.in_s3:
            return None
        for path in self.paths or [self.path or ""]:
            if not Path(path).exists():
                message = (
                    f"{path}: there is no such file or folder on this machine; create it, or correct the path"
                )
                raise ManifestError(f"{where}.files.{'path' if self.path else 'paths'}: {message}")
        try:
            place_of(self, where).listing(settled_only=True)
        except UserError as error:
            raise ManifestError(f"{where}.files: {error}") from error
        return msgspec.structs.replace(self, follow=False)

    @property
    def by_line(self) -> bool:
        return self.records == "lines" or self.format in ROWS

    @property
    def in_s3(self) -> bool:
        return (self.path or self.paths[0]).startswith(S3)

    @property
    def packed(self) -> bool:
        """A packed file that is still written ends in the middle: it has to appear whole."""
        return self.pattern.endswith(".gz")

    @property
    def whole(self) -> bool:
        """Files are whole when they are there: they never grow."""
        return self.in_s3 or self.packed or self.format == "parquet" or not self.by_line

    def _check_places(self) -> None:
        every = self.paths or [self.path or ""]
        for path in every:
            if "://" in path and not path.startswith(S3):
                raise ValueError(
                    f"`path`: {path!r} has an unknown scheme; write a folder or "
                    "s3://bucket/prefix?endpoint=..."
                )
            if path.startswith(S3) != self.in_s3:
                raise ValueError("`paths`: folders and S3 cannot be mixed in one source; make it two sources")
        Glob(self.pattern)
        if self.in_s3 and self.follow_links:
            raise ValueError("`followLinks` is of folders: S3 has no links")
        if self.manifest is not None and (self.path is None or self.pattern != "**/*"):
            raise ValueError("`manifest` lists names below one `path`, and needs no `pattern`")

    def _check_encoding(self) -> None:
        if self.format == "parquet" and self.encoding != "utf-8":
            raise ValueError(
                "`encoding` is of text, jsonl and csv: Parquet says itself how its text is encoded"
            )
        try:
            newline = "\n".encode(self.encoding)
        except LookupError:
            raise ValueError(f"`encoding`: Python has no text encoding {self.encoding!r}") from None
        if self.by_line and newline != b"\n":
            raise ValueError(
                f"`encoding`: lines of {self.encoding} cannot be told apart by their newlines; "
                "use records: files"
            )

    def _check_format(self) -> None:
        if self.records is not None and self.format != "text":
            raise ValueError(f"`records` is for format: text; a record of {self.format} is a row")
        if self.type is not None and self.format not in ROWS:
            raise ValueError("`type` is for rows: format jsonl, csv or parquet")
        if self.columns and self.format not in ("csv", "parquet"):
            raise ValueError(f"`columns` is for csv and parquet, not for {self.format}")
        if self.tuples and (self.format != "parquet" or self.type is not None):
            raise ValueError("`tuples` is for format: parquet without `type`")
        if self.format != "csv" and (self.delimiter != "," or not self.header or self.multiline):
            raise ValueError("`delimiter`, `header` and `multiline` are for format: csv")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise ValueError("`delimiter` is one character, and no quote or newline")
        if not self.header and not self.columns:
            raise ValueError("`header: false` needs the names of the `columns`")


def reader(spec: FilesSpec, name: str, where: str) -> Reader:
    """A reader of the source's files. Raises ManifestError if `type` names no class."""
    files, form = place_of(spec, where), format_of(spec, name, where)
    if not spec.follow:
        return ListedReader(files, form)
    return (
        ArrivingReader(files, form)
        if files.whole or (form.whole and spec.by_line) or spec.packed
        else FollowedReader(files, form)
    )


def place_of(spec: FilesSpec, where: str) -> Files:
    """The place with the source's files: a folder, S3, or what a list names there."""
    files: Files
    if spec.in_s3:
        from flamestream.connectors.files.s3 import S3Files, S3Place  # lazily: only for S3

        setting = f"{where}.files.{'paths' if spec.paths else 'path'}"
        fronts = {path: "/".join(filter(None, parsed_s3(path, setting)[:2])) for path in spec.paths}
        files = S3Files(
            [S3Place(path, fronts.get(path, ""), setting) for path in spec.paths or [spec.path or ""]],
            spec.pattern,
        )
    else:
        files = LocalFiles(places(spec.path, spec.paths), spec.pattern, follow_links=spec.follow_links)
    return NamedFiles(files, spec.manifest) if spec.manifest is not None else files


def format_of(spec: FilesSpec, name: str, where: str) -> Format:
    """The format that makes records of them. Raises ManifestError if `type` names no class."""
    match spec.format:
        case "text":
            return Lines(name, Text(spec.encoding)) if spec.by_line else Documents(name, spec.encoding)
        case "jsonl":
            return Lines(name, JsonRows(spec.encoding, _rows(spec, where)))
        case "csv":
            rows = _rows(spec, where)
            return Lines(
                name, CsvRows(rows, spec.encoding, spec.delimiter, spec.multiline, spec.header, spec.columns)
            )
        case "parquet":
            return ParquetRows(
                name, Tuples(name, spec.columns) if spec.tuples else Mapped(_rows(spec, where)), spec.columns
            )


def _rows(spec: FilesSpec, where: str) -> Rows:
    return Rows(row_class(spec.type, f"{where}.files.type"))
