"""Codec: the functions of payload_codec.py, from the native kernel where there is one.

The kernel does what succeeds; whatever is refused, or of a kind that it does not know, it hands to the functions of payload_codec.py,
so results, refusals and their messages are the same.
"""

from flamestream.model import payload_codec as reference
from flamestream.model.kernel import kernel

if kernel is None:
    check = reference.check
    checked_size = reference.checked_size
    decode = reference.decode
    decode_items = reference.decode_items
    decode_many = reference.decode_many
    encode = reference.encode
    encode_item = reference.encode_item
    encode_items = reference.encode_items
    encode_many = reference.encode_many
    height_of = reference.height_of
else:
    kernel.refer_to(
        encode=reference.encode,
        check=reference.check,
        decode=reference.decode,
        decode_many=reference.decode_many,
        decode_items=reference.decode_items,
        height_of=reference.height_of,
        checked_size=reference.checked_size,
    )
    check = kernel.check
    checked_size = kernel.checked_size
    decode = kernel.decode
    decode_items = kernel.decode_items
    decode_many = kernel.decode_many
    encode = kernel.encode
    encode_item = kernel.encode_item
    encode_items = kernel.encode_items
    encode_many = kernel.encode_many
    height_of = kernel.height_of

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
