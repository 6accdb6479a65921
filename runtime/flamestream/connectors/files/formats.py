"""Formats: how the bytes of a file become records. Where the bytes are is another choice (places.py).

| format    | a record is        | its payload                                                         |
|-----------|--------------------|---------------------------------------------------------------------|
| documents | a file             | fs.Document                                                         |
| text      | a line             | str                                                                 |
| jsonl     | a line             | the value as a payload, or the user's class                         |
| csv       | a row              | fs.Map of column to text, or the user's class                       |
| parquet   | a row              | fs.Map of column to value, or the user's class                      |

What cannot be read is a fact of the input: it becomes an ErrorValue at its place, the same at every read, and
the job's `onError` decides. A file that is gone or changes is not: it raises.

Keeps: the records depend on the file's name and bytes alone; memory is bounded by `MAX_RECORD` and a batch of
rows, not by the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from flamestream.connectors.files.places import Files, Found
from flamestream.connectors.kit.producer import Chunk


@dataclass(frozen=True, slots=True)
class Record:
    """A record, the bytes of input that it occupies, and whether its end was seen (a log's last line may
    still grow)."""

    payload: object
    size: int
    complete: bool = True


@dataclass(slots=True)
class Mark:
    """The place up to which a file is known: record `offset` begins at byte `position`, which only formats of
    lines use."""

    offset: int = 0
    position: int = 0


def fill(chunk: Chunk, records: Iterator[Record], count: int, size: int) -> bool:
    """Add about so many records and bytes to the chunk. Whether the records are at their end."""
    for record in islice(records, count):
        chunk.payloads.append(record.payload)
        chunk.sizes.append(max(1, record.size))
        size -= chunk.sizes[-1]
        if size <= 0:
            return False
    return len(chunk.payloads) < count


class Format(Protocol):
    """A format, by which files become records."""

    whole: bool
    """A file is read as it is and never grows (a footer at its end, a packed file)."""

    def records(self, files: Files, file: Found, mark: Mark, *, growing: bool = False) -> Iterator[Record]:
        """The records from `mark` on, the last one of lines also if it has no newline yet. Raises
        FileNotFoundError or Corrupt."""

    def skip(self, files: Files, file: Found, mark: Mark, upto: int, *, growing: bool = False) -> None:
        """Move `mark` to record `upto`, or as far as there are complete records."""
