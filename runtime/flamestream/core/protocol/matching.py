"""Matching: which keys of a state are meant, and where the next of them may stand.

>>> from flamestream.model.payloads.codec import encode
>>> [fits(Matching(b"", "ann"), encode(key)) for key in ("ann", "anna", "bob", 7)]
[True, True, False, False]
>>> least(Matching(b"", "ann"), encode("bob"))
b'\\xa4ann'

A text begins with how long it is, so those that begin alike stand in as many places as they have lengths.

Does not: know which keys there are (key_order.py).
"""

from typing import Final

from flamestream.core.protocol.queries import Matching

_LONG: Final = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""Bytes of the heads of longer texts in msgpack."""
_SHORT: Final = range(0xA0, 0xC0)
_LONGEST: Final = 0xFFFF_FFFF


def fits(matching: Matching, key: bytes) -> bool:
    """Whether a canonical key is meant."""
    if not key.startswith(matching.head):
        return False
    if matching.text is None:
        return True
    rest = key[len(matching.head) :]
    begins = _begins(rest[0] if rest else 0)
    return begins > 0 and rest.startswith(matching.text.encode(), begins)


def least(matching: Matching, key: bytes) -> bytes | None:
    """The least key that may be meant and is not below a canonical one; None: those above it are not either."""
    if matching.text is None:
        return max(key, matching.head) if key < matching.head or key.startswith(matching.head) else None
    text = matching.text.encode()
    if key < (first := _of_length(matching.head, 0, text)):
        return first
    rest = key[len(matching.head) :]
    if not key.startswith(matching.head) or not rest:
        return None
    if _SHORT.stop <= rest[0] < 0xD9:  # what is no text, between short and longer ones
        return _of_length(matching.head, len(_SHORT), text)
    if (begins := _begins(rest[0])) == 0:
        return None
    length, content = int.from_bytes(rest[1:begins]) if begins > 1 else rest[0] & 0x1F, rest[begins:]
    if content.startswith(text):
        return key
    length += content > text
    return None if length > _LONGEST else _of_length(matching.head, length, text)


def _begins(first: int) -> int:
    """The place of a text's content; 0: it is no text."""
    return 1 if first in _SHORT else _LONG.get(first, 0)


def _of_length(head: bytes, length: int, text: bytes) -> bytes:
    """The least text of that length, or of its own if that is more, that begins so."""
    length = max(length, len(text))
    if length < len(_SHORT):
        its = bytes([_SHORT.start + length])
    else:
        size = 1 if length < 1 << 8 else 2 if length < 1 << 16 else 4
        its = {1: b"\xd9", 2: b"\xda", 4: b"\xdb"}[size] + length.to_bytes(size)
    return head + its + text
