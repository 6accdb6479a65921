"""Logs: what is acknowledged and not in a part yet. An object a delivery, numbered from 1; a seal where a log
ends for ever.

A segment is framed like a record of a files sink (length, CRC-32, msgpack) and carries, of each slot that its
log has had, the number of the newest segment with it: the last bundles of a log are found from its newest
segment.

Keeps: what is decoded is what was written. Does not: know which segments count (chain.py).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from flamestream.fenced.log import HEADER, Delivered, framed
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Fence, Slot
from flamestream.ports import ObjectStore

T = TypeVar("T")
LOGS = "_flamestream/logs/"


class Segment(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """A delivery."""

    fence: Fence
    number: int
    """The delivery's number, for people."""
    bundles: list[Delivered]
    newest: dict[Slot, int]
    """The number of the newest segment, this one included, of each slot that the log has had."""


class Seal(msgspec.Struct, frozen=True, array_like=True, tag="seal"):
    """Nothing follows: the log's owner is fenced."""

    by: Fence


Stored = Segment | Seal
_encode = msgspec.msgpack.Encoder().encode
_decode: Final[Any] = msgpack_decoder(Stored)


def encode(stored: Stored) -> bytes:
    """The bytes of an object."""
    return framed(_encode(stored))


def decode(data: bytes, name: str) -> Stored:
    """The segment or seal that `encode` took. Raises Corrupt that names the object."""
    body = data[HEADER:]
    if int.from_bytes(data[:4], "big") != len(body) or crc32(body) != int.from_bytes(data[4:HEADER], "big"):
        raise Corrupt(f"{name} is damaged; restore it from a backup")
    stored: Stored = decoded(_decode, body, name)
    return stored


def decoded(decode: Callable[[bytes], T], data: bytes, name: str) -> T:
    """The content of an object. Raises Corrupt that names it."""
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{name} is damaged, or was written by another version or program: {error}") from error


def name_of(log: int, number: int) -> str:
    """The name of the object with this number."""
    return f"{LOGS}{log:012}/{number:012}"


def listed(store: ObjectStore, log: int) -> list[int]:
    """Numbers that are there, ascending. A hint."""
    return [int(name.rpartition("/")[2]) for name in store.names(f"{LOGS}{log:012}/")]


def found(store: ObjectStore, name: str) -> bytes | None:
    """An object's bytes, or None if there is none."""
    try:
        return store.get(name)
    except Corrupt:  # a store says so of what is missing
        return None


def segment_at(store: ObjectStore, log: int, number: int) -> Stored | None:
    """The segment or seal with this number; None if there is none."""
    name = name_of(log, number)
    data = found(store, name)
    return None if data is None else decode(data, name)


def size_of(bundles: Iterable[Delivered]) -> int:
    """The bytes of the bundles' items."""
    return sum(len(bundle[3]) for bundle in bundles)
