"""A file of a front's journal: entries one after another, each with its length, time and checksums.

A writer that dies leaves at most a torn tail: part of its last write, or zeros where a crash of the machine
lost it. A torn tail is cut at the last whole record. Anything else that is not a whole record is damage. To
tell the two apart a record's head has a checksum of its own (a torn record's length can be trusted, a damaged
one's cannot) and every record ends in a byte that is not zero.

>>> data = head(after=START) + record(Entry(Time(5), Partition("p"), Offset(0), 2))
>>> scan(data + b"torn", "doc").length == len(data)
True

Keeps: a record is read as it was written or not at all. Does not: know which files count (journal/seal.py).
Format: docs/reference/formats.md.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from flamestream.core.protocol.events import Entry
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import START, Time

MAGIC: Final = b"FSJ1"
_FILE_HEAD: Final = Struct("<4sQI")
"""Magic, time of the front's last entry before this file, CRC-32 of both."""
_HEAD: Final = Struct("<IQI")
"""Length of the body, time of the entry, CRC-32 of the body; then CRC-32 of these."""
_HEAD_CHECK: Final = Struct("<I")
_HEAD_SIZE: Final = _HEAD.size + _HEAD_CHECK.size
_END: Final = b"\xff"
FIRST: Final = _FILE_HEAD.size
"""The byte at which the first record begins."""
_encode: Final = msgspec.msgpack.Encoder().encode


class _Body(msgspec.Struct, frozen=True, array_like=True):
    partition: str
    first: int
    count: int
    payloads: bytes
    end: int | None = None
    """Absent in files of older versions."""


_decode: Final = msgpack_decoder(_Body)


@dataclass(frozen=True, slots=True)
class Scan:
    """A file's content: entries at or above the cut, and of all its whole records the end and the last
    time."""

    entries: list[Entry]
    length: int
    """Bytes of the whole records; 0: not even the file's head is whole."""
    after: Time
    last: Time
    """Time of the last entry; START: there is none."""


def head(after: Time) -> bytes:
    """The first bytes of a file."""
    unchecked = _FILE_HEAD.pack(MAGIC, after, 0)[:-4]
    return unchecked + crc32(unchecked).to_bytes(4, "little")


def record(entry: Entry) -> bytes:
    """An entry as it stands in a file."""
    body = _encode(_Body(entry.partition, entry.first, entry.count, entry.payloads, entry.end))
    front = _HEAD.pack(len(body), entry.time, crc32(body))
    return b"".join((front, _HEAD_CHECK.pack(crc32(front)), body, _END))


def scan(data: bytes, name: str, cut: Time = START, *, sealed: bool = False) -> Scan:
    """Read the file `name`. `sealed`: all of `data` counts, so a torn tail is damage as well. Raises Corrupt
    naming file and offset."""
    position, after, last = _file_head(data, name, sealed)
    entries: list[Entry] = []
    while position and position < len(data):
        end = _record_end(data, position)
        if end is None:
            if sealed or not _is_torn(data, position):
                raise _damaged(name, position)
            break
        _, time, _ = _HEAD.unpack_from(data, position)
        if time <= last or time <= after:
            raise _damaged(name, position, f"its time {time} is not above {max(last, after)}")
        if time >= cut:
            entries.append(_entry(data, position, end, Time(time), name))
        position, last = end, Time(time)
    return Scan(entries, position, after, last)


def _file_head(data: bytes, name: str, sealed: bool) -> tuple[int, Time, Time]:
    # A whole head whose checksum ends in zeros looks torn too: nothing stands behind it then, so nothing is
    # lost.
    if not sealed and len(data.rstrip(b"\0")) < FIRST:
        return 0, START, START
    if len(data) < FIRST or data[:FIRST] != head(after := Time(_FILE_HEAD.unpack_from(data)[1])):
        raise _damaged(name, 0)
    return FIRST, after, START


def _record_end(data: bytes, position: int) -> int | None:
    """The byte at which the record at `position` ends; None if there is no whole one."""
    body = position + _HEAD_SIZE
    if body > len(data):
        return None
    length, _, check = _HEAD.unpack_from(data, position)
    (head_check,) = _HEAD_CHECK.unpack_from(data, position + _HEAD.size)
    end: int = body + length + 1
    if crc32(data[position : body - _HEAD_CHECK.size]) != head_check or end > len(data):
        return None
    return end if data[end - 1 : end] == _END and crc32(memoryview(data)[body : end - 1]) == check else None


def _is_torn(data: bytes, position: int) -> bool:
    """Whether nothing follows but part of one record, maybe with zeros where a crash lost it."""
    rest = data[position:].rstrip(b"\0")
    if len(rest) < _HEAD_SIZE:
        return True
    length, _, _ = _HEAD.unpack_from(rest)
    (head_check,) = _HEAD_CHECK.unpack_from(rest, _HEAD.size)
    # (!) a length is believed only if the head's own checksum is right: a damaged one must not pass for the
    # end of a torn record
    return crc32(rest[: _HEAD.size]) == int(head_check) and len(rest) < _HEAD_SIZE + int(length) + 1


def _entry(data: bytes, position: int, end: int, time: Time, name: str) -> Entry:
    try:
        body = _decode(memoryview(data)[position + _HEAD_SIZE : end - 1])
    except msgspec.DecodeError as error:
        raise _damaged(name, position, f"it was written by another version ({error})") from error
    at_end = None if body.end is None else Offset(body.end)
    return Entry(time, Partition(body.partition), Offset(body.first), body.count, body.payloads, at_end)


def _damaged(name: str, position: int, why: str = "its checksum or length is wrong") -> Corrupt:
    return Corrupt(
        f"journal {name} is damaged at byte {position}: {why}; restore the file from a backup, or give the "
        "data up and reset the job"
    )
