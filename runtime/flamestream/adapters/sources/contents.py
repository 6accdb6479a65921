"""What is in a file: one document, or its lines. What cannot be read becomes an error value at its place, the same at every read.

A file that is not allowed to be read, a byte that is not in the encoding, and a record above 16 MiB are facts of the input: the record
is an ErrorValue that names file and position, and the job's `onError` decides. A file that is gone is not: it raises.

Keeps: the payloads depend on the file's name and bytes alone. Does not: decide which files (listing.py) or when (listed.py, followed.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flamestream.model.payload import ErrorValue
from flamestream.model.records import Document

MAX_RECORD: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line, the bytes it occupies with its newline, and whether it has one."""

    payload: object
    size: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """How the source `source` turns bytes into payloads."""

    source: str
    encoding: str

    def document(self, name: str, path: str) -> tuple[object, bytes]:
        """The payload of a whole file, and its bytes."""
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_RECORD + 1)
        except PermissionError as error:
            return self._error("PermissionError", f"{name}: cannot be read: {error.strerror}"), b""
        if len(data) > MAX_RECORD:
            return self._too_long(name, 0), data
        text = self._text(name, data, 0)
        return (Document(name, text) if isinstance(text, str) else text), data

    def lines(self, name: str, path: str, position: int) -> Iterator[Line]:
        """The lines from byte `position` on, the last one also if it has no newline yet."""
        try:
            file = open(path, "rb")  # noqa: SIM115  # `with` follows; only opening may be refused
        except PermissionError as error:
            yield Line(self._error("PermissionError", f"{name}: cannot be read: {error.strerror}"), 0, True)
            return
        with file:
            file.seek(position)
            while data := file.readline(MAX_RECORD + 1):
                size, complete = len(data), data.endswith(b"\n")
                while not complete and size > MAX_RECORD and (more := file.readline(MAX_RECORD)):
                    size, complete = size + len(more), more.endswith(b"\n")
                payload = self._too_long(name, position) if size > MAX_RECORD else self._text(name, _bare(data), position)
                yield Line(payload, size, complete)
                position += size

    def _text(self, name: str, data: bytes, position: int) -> object:
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            where = f"{name}: byte {position + error.start} (0x{data[error.start]:02x})"
            return self._error("UnicodeDecodeError", f"{where} is not {self.encoding}: {error.reason}")

    def _too_long(self, name: str, position: int) -> ErrorValue:
        return self._error("RecordTooLong", f"{name}: the record at byte {position} has more than {MAX_RECORD} bytes")

    def _error(self, error: str, message: str) -> ErrorValue:
        return ErrorValue(function=f"source {self.source}", error=error, message=message)


def _bare(line: bytes) -> bytes:
    """Without its line end, which is LF or CR LF."""
    return line[: -2 if line.endswith(b"\r\n") else -1] if line.endswith(b"\n") else line
