"""The log of a files sink: one record a delivery, readable up to any torn byte.

A record is a length and a CRC-32 (both u32, big-endian), then that many bytes of msgpack:
[[attempt, layout], number, [[slot, sequence, t_last, items], ...], written]. A record counts once it is whole; a torn
one can only be the last, because a record is durable before the next is written. So a damaged record with a
whole one behind it is corruption, not a crash.

Keeps: what `scan` gives is what was written. Does not: know which logs or lengths count (fences.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from os import fstat, pread
from typing import Annotated, Final
from zlib import crc32

import msgspec
from msgspec import Meta

from flamestream.core.protocol.actions import Bundle
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Fence, SequenceNumber, Slot
from flamestream.model.slot import MAX_SLOTS

HEADER: Final = 8
MAX_RECORD: Final = 1 << 30

AtSlot = Annotated[Slot, Meta(ge=0, lt=MAX_SLOTS)]
OfBundle = Annotated[SequenceNumber, Meta(ge=1, le=(1 << 63) - 1)]
Delivered = tuple[AtSlot, OfBundle, bytes, bytes]
"""A bundle in a record: slot, sequence, t_last, items."""


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """The content of one record: the bundles that one call delivered under a fence."""

    fence: Fence
    number: int
    bundles: list[Delivered]
    written: int = 0
    """Microseconds since 1970 by the writer's clock, a moment before it was durable; 0: by a release that did not say
    it. For people: nothing rests on it."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgpack_decoder(Delivery)


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record and the bytes it occupies."""

    start: int
    end: int
    delivery: Delivery


def encode_record(fence: Fence, number: int, bundles: Sequence[Bundle], written: int = 0) -> bytes:
    """The bytes of one delivery."""
    told = [(bundle.slot, bundle.sequence, bundle.t_last, bundle.items) for bundle in bundles]
    return framed(_encode((fence, number, told, written)))


def framed(body: bytes) -> bytes:
    """A record's bytes: length, checksum, body."""
    return len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


def scan(file: FileIO, name: str, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """The records from byte `start` on. Without `end` up to a torn one; with it, all up to there or Corrupt.

    `name` is for messages. The file is unbuffered: its writer may be at work.
    """
    while end is None or start < end:
        body = read_body(file, start)
        # Once (!): asked again behind a look that found it torn, its writer may have gone on meanwhile.
        followed = body is None and _followed(file, start)
        if followed and end is None:
            body = read_body(file, start)  # its writer was at it a moment ago
        if body is None:
            if end is not None or followed:
                raise Corrupt(
                    f"{name}: the record at byte {start} is damaged, and there is more that counts; restore "
                    "it from a backup"
                )
            return
        try:
            delivery = _decode(body)
        except msgspec.DecodeError as error:
            raise Corrupt(
                f"{name}: the record at byte {start} was written by another version or program: {error}"
            ) from error
        yield Record(start, start + HEADER + len(body), delivery)
        start += HEADER + len(body)


def read_body(file: FileIO, start: int) -> bytes | None:
    """The checked body of the record at `start`, or None if there is no whole one."""
    file.seek(start)
    header = file.read(HEADER)
    length = int.from_bytes(header[:4], "big")
    # A length of 0: zeros that a crash of the machine left where nothing was synced.
    if len(header) < HEADER or not 0 < length <= MAX_RECORD:
        return None
    body = file.read(length)
    return body if len(body) == length and crc32(body) == int.from_bytes(header[4:], "big") else None


def end_of(file: FileIO, start: int) -> int:
    """The byte at which the whole records from `start` on end, by their lengths alone: nothing is read but
    those."""
    size = fstat(file.fileno()).st_size
    while start + HEADER <= size:
        length = int.from_bytes(pread(file.fileno(), 4, start), "big")
        if not 0 < length <= min(MAX_RECORD, size - start - HEADER):
            break
        start += HEADER + length
    return start


def _followed(file: FileIO, start: int) -> bool:
    """Whether a whole record stands behind the one at `start`."""
    file.seek(start)
    length = int.from_bytes(file.read(4), "big")
    return length > 0 and read_body(file, start + HEADER + length) is not None
