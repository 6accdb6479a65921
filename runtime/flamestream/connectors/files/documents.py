"""Whole files as records.

Keeps: a file is one record, whatever is in it. Does not: read more than `MAX_RECORD` bytes of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from flamestream.connectors.files.formats import Mark, Record
from flamestream.connectors.files.lines import DAMAGED_GZIP, damaged
from flamestream.connectors.files.places import Files, Found, opened
from flamestream.connectors.kit.producer import MAX_RECORD, error_item
from flamestream.model.records import Document


@dataclass(frozen=True, slots=True)
class Documents:
    """`Format`: one `Document` a file."""

    source: str
    encoding: str
    whole = True

    def records(self, files: Files, file: Found, mark: Mark, *, growing: bool = False) -> Iterator[Record]:
        if mark.offset == 0:
            yield self.record(files, file)[0]

    def skip(self, files: Files, file: Found, mark: Mark, upto: int, *, growing: bool = False) -> None:
        mark.offset = min(upto, 1)

    def record(self, files: Files, file: Found, *, growing: bool = False) -> tuple[Record, bytes]:
        """The file's record, and its bytes."""
        try:
            with opened(files, file, growing=growing) as stream:
                data = stream.read(MAX_RECORD + 1)
        except PermissionError as error:
            return Record(
                error_item(self.source, "PermissionError", f"{file.name}: cannot be read: {error.strerror}"),
                0,
            ), b""
        except DAMAGED_GZIP as error:
            return Record(damaged(self.source, file, "", error), file.size), b""
        if len(data) > MAX_RECORD:
            message = f"{file.name}: the record at byte 0 has more than {MAX_RECORD} bytes"
            return Record(error_item(self.source, "RecordTooLong", message), len(data)), data
        return Record(self._payload(file.name, data), len(data)), data

    def _payload(self, name: str, data: bytes) -> object:
        try:
            return Document(name, data.decode(self.encoding))
        except UnicodeDecodeError as error:
            where = f"{name}: byte {error.start} (0x{data[error.start]:02x})"
            return error_item(
                self.source, "UnicodeDecodeError", f"{where} is not {self.encoding}: {error.reason}"
            )
