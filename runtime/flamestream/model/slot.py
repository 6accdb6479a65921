"""Slots: a fixed cut of the int32 hash range. State, barriers and `t_last` are keyed by slot, never by
worker.

>>> slot_of_hash(-(2**31), slots=4), slot_of_hash(2**31 - 1, slots=4)
(0, 3)

Keeps: a key's slot depends on its canonical encoding and the job's number of slots alone.
"""

from zlib import crc32

from flamestream.model.ids import Slot

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
DEFAULT_SLOTS = 256
MAX_SLOTS = 4096


def hash_of(canonical: bytes) -> int:
    """An int32 from a canonical encoding (`payload.encode`), spread evenly."""
    # Never Python's `hash` (!): it may differ between processes, and takes 1, True and 1.0 for one key.
    return crc32(canonical) + INT32_MIN


def slot_of_hash(value: int, slots: int) -> Slot:
    """The slot of an int32."""
    return Slot((value - INT32_MIN) * slots >> 32)


def slot_of(canonical: bytes, slots: int) -> Slot:
    """The slot of a key, given its canonical encoding."""
    # `slot_of_hash(hash_of(canonical), slots)`, without going to an int32 and back
    return Slot(crc32(canonical) * slots >> 32)
