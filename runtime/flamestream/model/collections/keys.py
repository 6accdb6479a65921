"""Keys of a Map and elements of a Set, as they are kept: told apart by their encoding, never by Python's `==`
and `hash`.

To Python 1, True and 1.0 are one key; here they are three. A str or an int is kept as it is, which is fast
and clashes with nothing; every other key is kept as its canonical encoding.
"""

from collections.abc import Iterable
from typing import Any, Final

from flamestream.model.payloads.codec import decode, encode
from flamestream.model.payloads.encoding import encode_wire

Key = str | int | bytes
# Without bytes: so bytes that are kept are always an encoding.
_AS_THEY_ARE: Final = frozenset({str, int})


def kept(key: Any) -> Key:
    """The form that a key is kept in. Raises PayloadError if it is no payload; at a str or an int it does not
    look: who puts one in does (heights.py)."""
    return key if type(key) in _AS_THEY_ARE else encode(key)


def given(key: Key) -> Any:
    """The key that the user gave."""
    return decode(key) if type(key) is bytes else key


def encoded(key: Key) -> bytes:
    """The canonical encoding of the key that the user gave."""
    return key if type(key) is bytes else encode_wire(key)


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Ascending by canonical encoding: an order that does not depend on history."""
    return sorted(keys, key=encoded)
