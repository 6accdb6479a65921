"""CSV as RFC 4180 has it: values apart by a delimiter, quotes doubled inside quotes.

Keeps: a row has exactly the columns of its file, else it is an error of that row. Does not: guess types.
"""

import csv
from dataclasses import dataclass

from flamestream.connectors.files.lines import Parser
from flamestream.connectors.kit.rows import Rows
from flamestream.connectors.kit.values_in_text import check_values


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

    def __init__(self, rows: Rows, encoding: str, delimiter: str, multiline: bool, header: bool, columns: list[str]) -> None:
        self._rows, self._encoding, self._delimiter = rows, encoding, delimiter
        self.multiline, self.header = multiline, header
        self._columns = columns
        self._read: tuple[bytes, list[str]] = (b"", [])
        """The newest header and what it says."""

    def parse(self, line: bytes, header: bytes) -> object:
        names = self._names(header) if self.header else self._columns
        values = self._values(line)
        if len(values) != len(names):
            hint = "" if self.multiline or line.count(b'"') % 2 == 0 else " (if values have newlines in quotes, set multiline: true)"
            raise ValueError(f"{len(values)} values where {len(names)} columns are{hint}")
        row = dict(zip(names, values, strict=True))
        if self.header and self._columns:
            row = {name: row[name] for name in self._columns}
        return self._rows.of_texts(row)

    def _names(self, header: bytes) -> list[str]:
        if self._read[0] != header:
            names = self._values(header.rstrip(b"\r\n"))
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
