"""The records of a Kafka sink: an item's key, value and partition, and the header that says which item of which bundle it is.

The header `flamestream` is a MessagePack array: tag (job and sink), attempt, layout, slot, sequence and size of the bundle, the item's
meta, and a hash of the bundle. Metas sort in the total order of items, so a consumer of several partitions can restore it.

>>> place = Place(tag_of("job", "out"), 1, 1, 7, 3, 2, b"meta", b"hash")
>>> place_in([(HEADER, encode_place(place))]) == place
True

Where chance would choose the partition, for want of a key, the meta does: a recovery that writes the rest of a delivery writes each item
where it would have been, so that no partition has the items of a slot out of order.

Keeps: the same item always gives the same key, value and (while the topic has as many) partition. Does not: write (kafka_writing.py).
"""

import hashlib
import zlib
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from flamestream.adapters.kafka.formats import Encode, Format, encoder_of
from flamestream.adapters.spec import function_of
from flamestream.model.collections import Map
from flamestream.model.errors import UserError

HEADER: Final = "flamestream"
DIGEST_BYTES: Final = 8
KEYLESS_BY_CHANCE: Final[dict[str, tuple[bytes | None, ...] | None]] = {
    "random": None, "consistent_random": (None, b""), "murmur2_random": (None,), "fnv1a_random": (None,),
}  # fmt: skip
"""The keys that librdkafka's partitioners give to a partition by chance; None: all of them."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Which item a record is."""

    tag: bytes
    attempt: int
    layout: int
    slot: int
    sequence: int
    count: int
    """Records of this bundle that this attempt wrote: with all of them there it is complete."""
    meta: bytes
    digest: bytes
    """Of the bundle's items."""


encode_place: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Place).decode


def tag_of(job: str, sink: str) -> bytes:
    """Tells apart the items of several jobs in one topic."""
    return digest_of(f"{job}\0{sink}".encode())


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def place_in(headers: Sequence[tuple[str, Any]] | None) -> Place | None:
    """From a record's headers; None if it is not an item of ours."""
    for name, value in headers or ():
        if name == HEADER:
            try:
                return _decode(value)
            except (msgspec.DecodeError, TypeError):
                return None
    return None


class Records:
    """Keys, values and partitions as the manifest says."""

    def __init__(self, value: Format, key: str | None, partitioner: str, where: str) -> None:
        self._where = where
        self._value: Encode = encoder_of(value)
        self._key = _key_of(key, where)
        self._partition = function_of(partitioner, f"{where}.partitioner") if ":" in partitioner else None
        self._by_slot = partitioner == "slot"
        self._by_chance = KEYLESS_BY_CHANCE.get(partitioner, ())

    def of(self, payload: Any, meta: bytes, slot: int, partitions: int) -> tuple[bytes | None, bytes | None, int]:
        """Key, value and partition (-1: librdkafka's partitioner chooses). Raises UserError for a payload that has none."""
        try:
            key = self._key_bytes(payload)
            value = None if payload is None else self._value(payload)
        except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise UserError(f"{self._where}: {payload!r:.200} cannot be written: {error}") from error
        if self._by_slot:
            return key, value, slot % partitions
        if self._by_chance is None or key in self._by_chance:
            return key, value, zlib.crc32(meta) % partitions
        return key, value, -1 if self._partition is None else self._chosen(self._partition, key, payload, partitions)

    def _chosen(self, function: Callable[..., Any], key: bytes | None, payload: Any, partitions: int) -> int:
        chosen = function(key, payload, partitions)
        if not isinstance(chosen, int) or not 0 <= chosen < partitions:
            raise UserError(f"{self._where}: the partitioner gave {chosen!r}: it must give a number from 0 to {partitions - 1}")
        return chosen

    def _key_bytes(self, payload: Any) -> bytes | None:
        key = None if self._key is None else self._key(payload)
        match key:
            case None | bytes():
                return key
            case str():
                return key.encode()
            case bool() | float() | tuple():
                raise ValueError(f"its key {key!r} is a {type(key).__name__}: a key is text, bytes, a whole number or None")
            case int():
                return b"%d" % key
        raise ValueError(f"its key is a {type(key).__name__}: a key is text, bytes, a whole number or None")


def _key_of(key: str | None, where: str) -> Callable[[Any], Any] | None:
    """A function `module:name`, or the name of a field."""
    if key is None:
        return None
    if ":" in key:
        return function_of(key, f"{where}.key")
    field = attrgetter(key)
    return lambda payload: payload[key] if isinstance(payload, Map) else field(payload)
