"""Codec: the functions of payloads/encoding.py, from the native kernel where there is one.

The kernel does what succeeds; whatever is refused, or of a kind that it does not know, it hands to the
functions of payloads/encoding.py, so results, refusals and their messages are the same.
"""

from flamestream.model.kernel import kernel
from flamestream.model.payloads.encoding import (
    check,
    checked_size,
    decode,
    decode_items,
    decode_many,
    encode,
    encode_item,
    encode_items,
    encode_many,
    height_of,
)

__all__ = [
    "check",
    "checked_size",
    "decode",
    "decode_items",
    "decode_many",
    "encode",
    "encode_item",
    "encode_items",
    "encode_many",
    "height_of",
]

if kernel is not None:
    # First: behind `update` these names are the kernel's own, and what it hands over would come back to it.
    kernel.refer_to(
        encode=encode,
        check=check,
        decode=decode,
        decode_many=decode_many,
        decode_items=decode_items,
        height_of=height_of,
        checked_size=checked_size,
    )
    # By name, so that a type checker sees the reference's signatures, whichever of the two is called.
    globals().update({name: getattr(kernel, name) for name in __all__})
