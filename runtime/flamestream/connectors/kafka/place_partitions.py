"""Which partition a record belongs to, by the manifest's partitioner: written from what the clients of Kafka
document, in plain Python.

| partitioner         | a key's partition                  | without a key |
|---------------------|------------------------------------|-----|
| murmur2, _random    | as Java's producers choose         | that of the empty key; _random: any (None) |
| consistent, _random | CRC-32                             | that of the empty key; _random: any (also empty) |
| fnv1a, _random      | FNV-1a, as Sarama's clients choose | that of the empty key; _random: any (None) |
| random              | any                                | any |
| slot                | the slot's number                  | the same |

>>> murmur2(b"21"), murmur2(b"foobar")
(-973932308, -790332482)

Does not: ask librdkafka, which is what the sink does.
"""

import zlib
from collections.abc import Callable
from typing import Final

_ANY_FOR: Final[dict[str, tuple[bytes | None, ...]]] = {
    "consistent_random": (None, b""), "murmur2_random": (None,), "fnv1a_random": (None,),
}  # fmt: skip


def partition_of(partitioner: str, key: bytes | None, slot: int, count: int) -> int | None:
    """The partition of a key, of `count`; None: any of them is right. `partitioner` is one of those above."""
    if partitioner == "slot":
        return slot % count
    if partitioner == "random" or key in _ANY_FOR.get(partitioner, ()):
        return None
    hashed: dict[str, Callable[[bytes], int]] = {
        "murmur2": _positive_murmur2,
        "consistent": zlib.crc32,
        "fnv1a": _fnv1a,
    }
    return hashed[partitioner.removesuffix("_random")](key or b"") % count


def murmur2(data: bytes) -> int:
    """The 32 bits of Kafka's `Utils.murmur2`, signed as in Java."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        found = (found * multiplier & mask) ^ part
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    found ^= found >> 15
    return found - (1 << 32) if found >> 31 else found


def _positive_murmur2(data: bytes) -> int:
    return murmur2(data) & 0x7FFFFFFF


def _fnv1a(data: bytes) -> int:
    found = 0x811C9DC5
    for byte in data:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    # Sarama takes the absolute value; Java's murmur2 only drops the sign's bit.
    return (1 << 32) - found if found >> 31 else found
