"""Walks: all keys of a state, a few at a time, while it changes.

>>> from flamestream.model.payloads.codec import encode
>>> [fits(Matching(b"", "ann"), encode(key)) for key in ("ann", "anna", "bob", 7)]
[True, True, False, False]

Keeps: a key that is there from the beginning of a walk to its end is given once, and so is one that comes meanwhile,
if the walk goes on until nothing is left. Does not: know what a key has.
"""

from collections.abc import Mapping
from typing import Protocol

from flamestream.core.protocol.queries import Matching

_LONG = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""Bytes of the heads of longer texts in msgpack."""


def fits(matching: Matching, key: bytes) -> bool:
    """Whether a canonical key is meant."""
    if not key.startswith(matching.head):
        return False
    if matching.text is None:
        return True
    rest = key[len(matching.head) :]
    first = rest[0] if rest else 0
    begins = 1 if first & 0xE0 == 0xA0 else _LONG.get(first, 0)
    return begins > 0 and rest.startswith(matching.text.encode(), begins)


class Walk(Protocol):
    """A walk through the keys of one state."""

    def some(self, count: int) -> tuple[list[bytes], bool]:
        """Those of about `count` more keys that are meant, and whether more are left now."""
        ...

    def close(self) -> None: ...


class KeyWalk:
    """The walk through a state in Python."""

    def __init__(self, buckets: Mapping[bytes, object], matching: Matching) -> None:
        self._buckets, self._matching = buckets, matching
        self._known: set[bytes] = set()
        self._waiting: list[bytes] = []

    def some(self, count: int) -> tuple[list[bytes], bool]:
        """As `Walk.some`."""
        if not self._waiting:
            self._waiting = [key for key in self._buckets if key not in self._known]
        some, self._waiting = self._waiting[:count], self._waiting[count:]
        self._known.update(some)
        left = bool(self._waiting) or not self._buckets.keys() <= self._known
        return [key for key in some if fits(self._matching, key)], left

    def close(self) -> None:
        """Nothing is held."""
