"""The records of a Kafka sink: an item's key, value and partition, and the header that says which item of
which bundle it is.

The header `flamestream` is a MessagePack array: tag (job and sink), attempt, layout, slot, sequence and size
of the bundle, the item's meta, and a hash of the bundle. Metas sort in the total order of items, so a
consumer of several partitions can restore it.

>>> place = Place(tag_of("job", "out"), 1, 1, 7, 3, 2, b"meta", b"hash")
>>> before, after = Places(place.tag, 1, 1).around(7, 3, 2, b"hash")
>>> place_in([(HEADER, before + pack(b"meta") + after)]) == place
True

Where chance would choose the partition, for want of a key, the meta does: a recovery that writes the rest of
a delivery writes each item where it would have been, so that no partition has the items of a slot out of
order.

Keeps: the same item always gives the same key, value and (while the topic has as many) partition. Does not:
write (kafka/writing.py).
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from flamestream.connectors.kafka.formats import Encode, Format, encoder_of
from flamestream.connectors.kit.spec import function_of
from flamestream.model.collections import Map
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import UserError
from flamestream.model.quoted import quoted

HEADER: Final = "flamestream"
DIGEST_BYTES: Final = 8
KEYLESS_BY_CHANCE: Final[dict[str, tuple[bytes | None, ...] | None]] = {
    "random": None, "consistent_random": (None, b""), "murmur2_random": (None,), "fnv1a_random": (None,),
}  # fmt: skip
"""The keys that librdkafka's partitioners give to a partition by chance; None: all of them."""

Record = tuple[bytes, bytes | None, bytes | None, int]
"""Meta, key, value and partition."""


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
    """The hash of the bundle's items."""


pack: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgpack_decoder(Place)


class Places:
    """The headers of one attempt: what its bundles, and a bundle's items, have in common is encoded once."""

    def __init__(self, tag: bytes, attempt: int, layout: int) -> None:
        whole = pack(Place(tag, attempt, layout, 0, 0, 0, b"", b""))
        # As an array of their own the last five fields have one byte of head in front: what is cut off is the
        # fields alone, and what is left begins every header.
        self._before = whole[: -len(pack([0, 0, 0, b"", b""])) + 1]

    def around(self, slot: int, sequence: int, count: int, digest: bytes) -> tuple[bytes, bytes]:
        """The bytes before and behind the packed meta in the header of each item of a bundle."""
        return self._before + pack(slot) + pack(sequence) + pack(count), pack(digest)


def tag_of(job: str, sink: str) -> bytes:
    """Tells apart the items of several jobs in one topic."""
    return digest_of(f"{job}\0{sink}".encode())


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def place_in(headers: Sequence[tuple[str, Any]] | None) -> Place | None:
    """The place that a record's headers say; None if it is not an item of ours."""
    for name, value in headers or ():
        if name == HEADER:
            try:
                return _decode(value)
            # Somebody else's header may have this name.
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

    def of(self, items: Iterable[tuple[bytes, Any]], slot: int, partitions: int) -> list[Record]:
        """A record for each item; partition -1: librdkafka's partitioner chooses. Raises UserError for a
        payload that can be none."""
        made: list[Record] = []
        payload: Any = None
        try:
            for meta, payload in items:
                key = None if self._key is None else self._key(payload)
                if type(key) is str:
                    key = key.encode()
                elif key is not None and type(key) is not bytes:
                    key = _key_bytes(key)
                value = None if payload is None else self._value(payload)
                made.append((meta, key, value, self._partition_of(meta, key, payload, slot, partitions)))
        except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise UserError(
                f"{self._where}: {quoted(f'{payload!r:.200}')} cannot be written: {quoted(str(error))}"
            ) from error
        return made

    def _partition_of(self, meta: bytes, key: bytes | None, payload: Any, slot: int, partitions: int) -> int:
        if self._by_slot:
            return slot % partitions
        if self._by_chance is None or key in self._by_chance:
            return zlib.crc32(meta) % partitions
        return -1 if self._partition is None else self._chosen(self._partition, key, payload, partitions)

    def _chosen(self, function: Callable[..., Any], key: bytes | None, payload: Any, partitions: int) -> int:
        chosen = function(key, payload, partitions)
        if not isinstance(chosen, int) or not 0 <= chosen < partitions:
            raise UserError(
                f"{self._where}: the partitioner gave {chosen!r}: it must give a number from 0 to "
                f"{partitions - 1}"
            )
        return chosen


def _key_bytes(key: Any) -> bytes:
    """The bytes of a key that is neither text nor bytes as they are."""
    match key:
        case bytes() | str():
            return key if isinstance(key, bytes) else key.encode()
        case bool() | float() | tuple():
            raise ValueError(
                f"its key {key!r} is a {type(key).__name__}: a key is text, bytes, a whole number or None"
            )
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
    # Not isinstance, which costs as much as the JSON (Map is an abstract base's): payloads have the very
    # type.
    return lambda payload: payload[key] if type(payload) is Map else field(payload)
