"""A source that is a stream of Redis: entries in the order of their ids, which is the order in which they
were added.

An id is milliseconds and a number within them; an offset is both in one number, so positions in the journal
are ids. A replay reads the same ids again.

A stream forgets: XADD with MAXLEN, XTRIM and XDEL remove entries, read or not. So each read begins at the
last entry that was read, which has to be there still: then nothing behind it was removed from the stream's
front. If it is gone while newer ones are there, entries between may have been lost, and that is an error,
never a silent jump.

A waiting XREAD only wakes the reader up; what it gives is looked at by the same read as ever.

Keeps: each entry that is there is given once, in order; a gap is an error. Does not: use consumer groups
(positions are in the journal and in the job's snapshots), or notice an XDEL of an entry in the middle that
was not read yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.connectors.kit.credit import THE_PARTITION
from flamestream.connectors.kit.producer import MAX_RECORD, Chunk, error_item
from flamestream.connectors.redis.server import Server
from flamestream.core.protocol.events import Entry
from flamestream.model.collections import Map
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue

WAIT_MS: Final = 50
"""The longest that a recovery waits for the thread that waits for entries."""
# With the 43 of the milliseconds: an offset fits a signed number of 64 bits.
_NUMBER_BITS: Final = 20
_MOST_MS: Final = 1 << 43

Raw = list[Any]
"""An entry as the server gives it: id, and names and values in turns."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, and what is read of it."""

    key: str
    fields: Sequence[str]
    """Fields that a record is made of. With one, records are its values; with more, tuples; with none, maps
    of all."""
    as_bytes: bool
    start: int
    """The least offset to read."""
    follow: bool


def offset_of(name: str) -> Offset:
    """The offset of an id. Raises ValueError for one that no offset can be.

    >>> offset_of("5-3"), id_of(offset_of("5-3")), id_of(offset_of("5"))
    (5242883, '5-3', '5-0')
    """
    milliseconds, _, number = name.partition("-")
    if not (milliseconds.isdecimal() and (number or "0").isdecimal()):
        raise ValueError(f"{name!r} is not the id of an entry, like 1767225600000-0")
    found = int(milliseconds), int(number or 0)
    if found[0] >= _MOST_MS or found[1] >> _NUMBER_BITS:
        raise ValueError(
            f"the id {name} is out of range: below {_MOST_MS} milliseconds, "
            f"and {1 << _NUMBER_BITS} entries in each"
        )
    return Offset(found[0] << _NUMBER_BITS | found[1])


def id_of(offset: int) -> str:
    """The id of an offset, as `offset_of` took it."""
    return f"{offset >> _NUMBER_BITS}-{offset & (1 << _NUMBER_BITS) - 1}"


class RedisReader:
    """`kit.producer.Reader`."""

    ended = False
    idle_seconds = 0.0

    def __init__(self, server: Server, stream: Stream, source: str) -> None:
        self._server, self._stream = server, stream
        self._where = f"{server.where}: stream {stream.key}"
        self._source = source
        self._next = stream.start
        self._mean = 64
        """Bytes of a record, about."""
        self.problem = ""

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._next = max(self._stream.start, offsets.get(THE_PARTITION, Offset(0)))
        self.ended = False
        # Nothing is taken: whether what was read last is still there must be known before anything is given.
        self._read(1)

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        most = max(1, min(records, size // self._mean))
        rows = self._read(most)
        if not rows and self._stream.follow:
            if not self._call(
                "XREAD",
                "COUNT",
                1,
                "BLOCK",
                WAIT_MS,
                "STREAMS",
                self._stream.key,
                id_of(max(0, self._next - 1)),
            ):
                return []
            rows = self._read(most)
        self.ended = not rows and not self._stream.follow
        return [self._chunk(rows)] if rows else []

    def read(self, entry: Entry) -> list[object]:
        rows = self._call("XRANGE", self._stream.key, id_of(entry.first), id_of(entry.next - 1))
        if len(rows) != entry.count:
            raise Corrupt(
                f"{self._where} had {entry.count} entries from {id_of(entry.first)} to "
                f"{id_of(entry.next - 1)}, and now has {len(rows)}: "
                "entries must stay until an epoch has committed what they led to. Trim less (MAXLEN, MINID), "
                "or start the job anew with another store"
            )
        return list(map(self._payload, rows, map(_size, rows)))

    def close(self) -> None:
        """Let the connection go."""
        self._server.hang_up()

    # --- what is there --------------------------------------------------------------------------------------

    def _read(self, most: int) -> list[Raw]:
        """The next entries, by a read that begins at the last one before them."""
        # (!) A read begins at the last entry that was read: that it is there still proves that nothing behind
        # it was trimmed.
        started = self._next <= self._stream.start
        rows: list[Raw] = self._call(
            "XRANGE", self._stream.key, id_of(self._next - (not started)), "+", "COUNT", most + (not started)
        )
        if started:
            self.problem = "" if rows or not self._stream.follow else f"{self._where}: there is nothing yet"
            return rows
        last = id_of(self._next - 1)
        if rows and rows[0][0].decode() == last:
            return rows[1:]
        self._judge_gap(last, rows)
        return []

    def _judge_gap(self, last: str, rows: list[Raw]) -> None:
        """The entry read last is not there. Harmless only if nothing was added since."""
        newest = self._newest()
        if newest is None or offset_of(newest) < offset_of(last):
            there = "is gone" if newest is None else f"now ends at {newest}"
            raise Corrupt(
                f"{self._where} was read up to {last} and {there}: it was deleted or made anew, or the "
                "server has lost what it acknowledged. Restore it, or start the job anew with another store"
            )
        if newest != last:
            first = rows[0][0].decode() if rows else f"behind {newest}"
            raise Corrupt(
                f"{self._where} was read up to {last}, which has been removed, and goes on at {first}: "
                "entries between them may be lost. "
                "Trim less (MAXLEN, MINID), and start the job anew with another store"
            )

    def _newest(self) -> str | None:
        """The id given last; None: there is no stream."""
        if not self._call("EXISTS", self._stream.key):
            return None
        told = self._call("XINFO", "STREAM", self._stream.key)
        found = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
        newest: bytes = found[b"last-generated-id"]
        return newest.decode()

    def _call(self, *command: object) -> Any:
        self._server.connected()
        return self._server.call(*command)

    # --- records --------------------------------------------------------------------------------------------

    def _chunk(self, rows: Sequence[Raw]) -> Chunk:
        try:
            offsets = [offset_of(row[0].decode()) for row in rows]
        except ValueError as error:
            raise UserError(f"{self._where}: {error}") from None
        sizes = list(map(_size, rows))
        self._mean = max(1, sum(sizes) // len(sizes))
        # From where the last one ended, not from its own first id: runs follow each other without gaps,
        # though ids do not.
        first, self._next = Offset(self._next), offsets[-1] + 1
        return Chunk(
            THE_PARTITION,
            first,
            list(map(self._payload, rows, sizes)),
            sizes,
            [Offset(offset + 1) for offset in offsets],
        )

    def _payload(self, row: Raw, size: int) -> object:
        name, parts = row
        if size > MAX_RECORD:
            return self._unreadable(name, f"it has more than {MAX_RECORD} bytes", "RecordTooLong")
        try:
            found = {
                field.decode(): self._value(value)
                for field, value in zip(parts[::2], parts[1::2], strict=True)
            }
            if not self._stream.fields:
                return Map(found)
            values = tuple(found[field] for field in self._stream.fields)
        except KeyError as error:
            return self._unreadable(name, f"it has no field {error}")
        except UnicodeDecodeError as error:
            return self._unreadable(name, f"byte {error.start} is not UTF-8: {error.reason}")
        return values[0] if len(values) == 1 else values

    def _value(self, data: bytes) -> str | bytes:
        return data if self._stream.as_bytes else data.decode()

    def _unreadable(self, name: bytes, why: str, error: str = "BadRecord") -> ErrorValue:
        return error_item(self._source, error, f"stream {self._stream.key}, entry {name.decode()}: {why}")


def _size(row: Raw) -> int:
    return sum(map(len, row[1]))
