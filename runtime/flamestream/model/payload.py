"""Payloads: the values that a user's functions take and give, and their one canonical encoding.

A payload is None, a bool, an int (-2**63 to 2**64-1), a float, a str, bytes, a datetime with a zone, a date,
a Decimal, a tuple, an fs.Vector, fs.Map or fs.Set, or an instance of a class with @fs.event or
@fs.payload_type; parts are payloads too. Everything else is refused with the way out.

>>> encode(1) != encode(True) != encode(1.0)
True
>>> check([1])
Traceback (most recent call last):
    ...
flamestream.model.errors.PayloadError: a list is not a payload: use a tuple or fs.Vector

This module is the face; the parts are payloads/ (which types, their bytes, users' classes, datetimes and the
like), codec.py (bytes, natively) and collections/ (growing state). Importing it registers them all, so every
process decodes alike.
"""

from dataclasses import dataclass
from typing import ClassVar

from flamestream.model import collections as _collections  # registers Vector, Map and Set  # noqa: F401
from flamestream.model.payloads.classes import event, payload_type
from flamestream.model.payloads.codec import (
    check,
    checked_size,
    decode,
    decode_items,
    decode_many,
    encode,
    encode_item,
    encode_items,
    encode_many,
)
from flamestream.model.payloads.encoding import SCALARS, hash_of_payload, is_payload, join_items, split_items
from flamestream.model.payloads.registry import MAX_DEPTH

__all__ = [
    "MAX_DEPTH",
    "SCALARS",
    "ErrorValue",
    "check",
    "checked_size",
    "decode",
    "decode_items",
    "decode_many",
    "encode",
    "encode_item",
    "encode_items",
    "encode_many",
    "event",
    "hash_of_payload",
    "is_payload",
    "join_items",
    "payload_type",
    "split_items",
]


@payload_type
@dataclass(frozen=True, slots=True)
class ErrorValue:
    """An error as an item: what a user function raised, or a source could not read. It travels, and can be
    invalidated."""

    ADDED_FIELDS: ClassVar[int] = 4
    """Fields behind `offset`, which error values stored by earlier releases lack."""

    function: str
    """The failed function as messages call it: module.name, or fs.field("shop"); the source of a record that
    could not be read."""
    error: str
    """Name of the exception's type."""
    message: str
    source: str = ""
    """Name of the source of the record that led to it."""
    offset: int = -1
    """The record's offset; -1: not known, for the operation stands behind a grouping, reduce or `balance`, or
    offsets have gaps."""
    partition: str = ""
    """The record's partition, if its source has several."""
    operation: int = -1
    """The vertex of the graph; -1: none, the record could not be read."""
    payload: str = ""
    """The function's input, shortened."""
    traceback: tuple[str, ...] = ()
    """`module.py:line in function` of the user's calls, the innermost last."""

    def __post_init__(self) -> None:
        # they may quote what is not encodable
        for name in ("function", "error", "message", "source", "partition", "payload"):
            text = getattr(self, name)
            object.__setattr__(self, name, text.encode("utf-8", "backslashreplace").decode())
