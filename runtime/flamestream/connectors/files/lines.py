"""Formats whose records are lines: text, JSON lines, CSV.

A row's number in messages counts records from 1, as the offsets do; a CSV header is not one. Blank lines of
JSON lines and CSV are no records: their bytes belong to the record behind them. A quoted value of a CSV with
`multiline` may contain newlines; without it, a quote that does not end in its line is an error of that line,
so a stray quote cannot swallow the rest of a file. CSV is as RFC 4180 has it: a row has exactly the columns
of its file, else it is an error of that row; types are not guessed.

Keeps: a record's size is the bytes it occupies, so offset and position move together. Does not: give a packed
file's position in packed bytes (it is read from its beginning again).
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final, NamedTuple

from flamestream.connectors.files.formats import Mark, Record
from flamestream.connectors.files.places import Files, Found, opened
from flamestream.connectors.kit.producer import MAX_RECORD, error_item
from flamestream.connectors.kit.rows import Rows, check_values
from flamestream.model.payload import ErrorValue

DAMAGED_GZIP: Final = (gzip.BadGzipFile, EOFError, zlib.error)
QUOTE: Final = b'"'


class Raw(NamedTuple):
    """A line with its end, whose content is given up if it is too long."""

    data: bytes
    size: int
    complete: bool


class Parser:
    """The part of a format that makes a payload of a line. These are the settings of text; other formats
    override them."""

    blank_lines = True
    """Whether blank lines are records."""
    header = False
    multiline = False

    def parse(self, line: bytes, header: bytes) -> object:
        """The payload. Raises ValueError with what is wrong."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(Parser):
    """A line is its text."""

    encoding: str

    def parse(self, line: bytes, header: bytes) -> object:
        return line.decode(self.encoding)


@dataclass(frozen=True, slots=True)
class JsonRows(Parser):
    """A line is a JSON value."""

    encoding: str
    rows: Rows
    blank_lines = False

    def parse(self, line: bytes, header: bytes) -> object:
        return self.rows.of_json(line if self.encoding == "utf-8" else line.decode(self.encoding))


class CsvRows(Parser):
    """A row of a table whose columns are named by the file's first line, or by the manifest."""

    blank_lines = False

    def __init__(
        self, rows: Rows, encoding: str, delimiter: str, multiline: bool, header: bool, columns: list[str]
    ) -> None:
        self._rows, self._encoding, self._delimiter = rows, encoding, delimiter
        self.multiline, self.header = multiline, header
        self._columns = columns
        self._read: tuple[bytes, list[str]] = (b"", [])
        """The newest header and what it says."""

    def parse(self, line: bytes, header: bytes) -> object:
        names = self._names(header) if self.header else self._columns
        values = self._values(line)
        if len(values) != len(names):
            hint = (
                ""
                if self.multiline or line.count(b'"') % 2 == 0
                else " (if values have newlines in quotes, set multiline: true)"
            )
            raise ValueError(f"{len(values)} values where {len(names)} columns are{hint}")
        row = dict(zip(names, values, strict=True))
        if self.header and self._columns:
            row = {name: row[name] for name in self._columns}
        return self._rows.of_texts(row)

    def _names(self, header: bytes) -> list[str]:
        if self._read[0] != header:
            names = self._values(header.rstrip(b"\r\n"))
            # Excel puts a byte order mark in front of UTF-8.
            names[:1] = [names[0].removeprefix("\ufeff")] if names else []
            if len(set(names)) < len(names):
                raise ValueError(f"the header names a column twice: {', '.join(names)}")
            if missing := [name for name in self._columns if name not in names]:
                raise ValueError(f"the header has no column {', '.join(missing)}; it has {', '.join(names)}")
            self._read = (header, names)
        return self._read[1]

    def _values(self, line: bytes) -> list[str]:
        text = line.decode(self._encoding)
        check_values(text, self._delimiter)
        try:
            return next(csv.reader([text], delimiter=self._delimiter, strict=True), [])
        except csv.Error as error:
            hint = "" if self.multiline else "; if values have newlines in quotes, set multiline: true"
            raise ValueError(f"{error}{hint}") from error


class Lines:
    """`Format` over a parser."""

    whole = False

    def __init__(self, source: str, parser: Parser) -> None:
        self._source = source
        self._parser = parser

    def records(self, files: Files, file: Found, mark: Mark, *, growing: bool = False) -> Iterator[Record]:
        offset, position = mark.offset, mark.position
        parser, pending = self._parser, 0
        try:
            for raw, header in self._raws(files, file, mark, growing):
                if raw is None:
                    pending += len(header)
                    continue
                position += raw.size
                if not parser.blank_lines and not raw.data.strip():
                    pending += raw.size
                    continue
                yield Record(
                    self._payload(file, raw, header, offset, position - raw.size),
                    pending + raw.size,
                    raw.complete,
                )
                offset, pending = offset + 1, 0
        except PermissionError as error:
            yield Record(
                error_item(self._source, "PermissionError", f"{file.name}: cannot be read: {error.strerror}"),
                0,
            )
        except DAMAGED_GZIP as error:
            yield Record(damaged(self._source, file, f" behind row {offset}", error), 0)

    def skip(self, files: Files, file: Found, mark: Mark, upto: int, *, growing: bool = False) -> None:
        if mark.offset >= upto:
            return
        pending = 0
        try:
            for raw, header in self._raws(files, file, Mark(mark.offset, mark.position), growing):
                if raw is None:
                    pending += len(header)
                elif not self._parser.blank_lines and not raw.data.strip():
                    pending += raw.size
                else:
                    if growing and not raw.complete:
                        return
                    mark.offset, mark.position, pending = (
                        mark.offset + 1,
                        mark.position + pending + raw.size,
                        0,
                    )
                    if mark.offset == upto:
                        return
        except (PermissionError, *DAMAGED_GZIP):
            mark.offset += 1  # its error item

    def _raws(
        self, files: Files, file: Found, mark: Mark, growing: bool
    ) -> Iterator[tuple[Raw | None, bytes]]:
        """Lines from the mark on, each with the file's header. A header that is passed on the way comes
        alone."""
        header = b""
        if self._parser.header and mark.position:
            with opened(files, file, growing=growing) as stream:
                header = next(_split(stream, self._parser.multiline), Raw(b"", 0, False)).data
        with opened(files, file, mark.position, growing=growing) as stream:
            lines = _split(stream, self._parser.multiline)
            if self._parser.header and not mark.position:
                first = next(lines, None)
                if first is None or (growing and not first.complete):
                    return
                header = first.data
                yield None, header
            for raw in lines:
                yield raw, header

    def _payload(self, file: Found, raw: Raw, header: bytes, offset: int, position: int) -> object:
        if raw.size > MAX_RECORD:
            message = f"{file.name}: the record at byte {position} has more than {MAX_RECORD} bytes"
            return error_item(self._source, "RecordTooLong", message)
        line = _bare(raw.data)
        try:
            return self._parser.parse(line, header)
        except UnicodeDecodeError as error:
            where = f"{file.name}: byte {position + error.start} (0x{line[error.start]:02x})"
            return error_item(
                self._source, "UnicodeDecodeError", f"{where} is not {error.encoding}: {error.reason}"
            )
        except ValueError as error:
            return error_item(
                self._source, "BadRow", f"{file.name}: row {offset + 1} (at byte {position}): {error}"
            )


def damaged(source: str, file: Found, place: str, error: Exception) -> ErrorValue:
    """A packed file that cannot be unpacked on."""
    return error_item(
        source,
        "DamagedFile",
        f"{file.name}: it cannot be unpacked{place}: {error}; what follows there is lost",
    )


def _split(stream: IO[bytes], multiline: bool) -> Iterator[Raw]:
    while data := stream.readline(MAX_RECORD + 1):
        size, complete = len(data), data.endswith(b"\n")
        parts = [data]
        quotes = data.count(QUOTE) if multiline else 0
        while (
            size <= MAX_RECORD
            and quotes % 2
            and complete
            and (more := stream.readline(MAX_RECORD + 1 - size))
        ):
            parts.append(more)
            size, complete, quotes = size + len(more), more.endswith(b"\n"), quotes + more.count(QUOTE)
        while not complete and size > MAX_RECORD and (more := stream.readline(MAX_RECORD)):
            size, complete = size + len(more), more.endswith(b"\n")
        # `too long` is any text that is not blank: a blank line may be no record.
        yield Raw(b"".join(parts) if size <= MAX_RECORD else b"too long", size, complete and not quotes % 2)


def _bare(line: bytes) -> bytes:
    """Without its line end, which is LF or CR LF."""
    return line[: -2 if line.endswith(b"\r\n") else -1] if line.endswith(b"\n") else line
