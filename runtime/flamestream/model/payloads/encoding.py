"""The canonical encoding of a payload: one encoding for routing keys, hashes, the wire, state and sinks.

msgpack (by msgspec) of the payload's wire. Equal payloads have equal bytes and unequal ones have not, where
equal means the same types all the way down: 1, True and 1.0 differ, 0.0 and -0.0 differ, and there is one
NaN.

>>> decode(encode((1, True, 1.0, "word", b"", None, ((),))))
(1, True, 1.0, 'word', b'', None, ((),))

Keeps: decode(encode(x)) == x with the same types; foreign bytes give Corrupt and nothing else, in bounded
depth, and memory proportional to their length. Does not: pickle, or import what a wire names.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, Final, TypeVar

import msgspec

from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payloads.registry import (
    FROM_WIRE,
    HEIGHTS,
    MAX_DEPTH,
    PLANS,
    TO_WIRE,
    OlderShape,
    Plan,
    Wire,
    register,
    too_deep,
)

T = TypeVar("T")
TUPLE_TAG: Final = 0
WORD: Final = 8
"""Bytes that a number, or a container without its members, counts for in `checked_size`."""
PLAIN: Final = frozenset({type(None), bool, int, str, bytes})
"""Types that are their own wire. A float is not, because of NaN."""
SCALARS: Final = PLAIN | {float}
INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 64) - 1
NAN: Final = float("nan")

_dumps: Final = msgspec.msgpack.Encoder().encode
_loads: Final = msgspec.msgpack.Decoder().decode
_loads_list: Final = msgspec.msgpack.Decoder(list[Any]).decode
_loads_items: Final = msgspec.msgpack.Decoder(list[tuple[bytes, Any]]).decode
_loads_raw: Final = msgspec.msgpack.Decoder(list[tuple[bytes, msgspec.Raw]]).decode
_UNENCODABLE: Final = (PayloadError, OverflowError, UnicodeEncodeError)
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# --- wires --------------------------------------------------------------------------------------------------


def wire_of(value: Any, room: int = MAX_DEPTH) -> Wire:
    """The wire of any payload. Ints out of range and lone surrogates show only when it is encoded."""
    return value if type(value) in PLAIN else TO_WIRE[type(value)](value, room)


def value_of(wire: Wire, room: int = MAX_DEPTH) -> Any:
    """The payload of a wire that came from outside."""
    kind = type(wire)
    if kind in SCALARS:
        return wire
    # Exactly an int: a dict takes True and 1.0 for 1, so a Vector would have further encodings (!).
    if kind is not list or not wire or type(wire[0]) is not int:
        raise Corrupt(f"a payload holds a {kind.__name__} where a tagged array or a scalar must be")
    if room <= 0:
        raise Corrupt(f"a payload nests deeper than {MAX_DEPTH} levels")
    return FROM_WIRE[wire[0]](wire, room)


def fill_wires(tagged: list[Any], room: int) -> list[Wire]:
    """Turn the values behind a container's tag into wires, in place. `room` is the container's own."""
    if not PLAIN.issuperset(map(type, tagged)):
        for place, value in enumerate(tagged):
            if type(value) not in PLAIN:
                tagged[place] = TO_WIRE[type(value)](value, room - 1)
    return tagged


def take_values(tagged: list[Wire], room: int) -> list[Any]:
    """Turn a container's wire into its values, in place and without the tag. `room` is the container's
    own."""
    del tagged[0]
    # most containers are flat: one pass in C, and nothing is left to do
    if not SCALARS.issuperset(map(type, tagged)):
        for place, wire in enumerate(tagged):
            if type(wire) not in SCALARS:
                tagged[place] = value_of(wire, room - 1)
    return tagged


# --- heights: is it a payload, and how deep -----------------------------------------------------------------


def height_of(value: Any, room: int = MAX_DEPTH) -> int:
    """Levels of containers in a payload (0 for a scalar). Raises PayloadError unless it is one and has at
    most `room`."""
    kind = type(value)
    if kind is str:
        return 0 if value.isascii() else _check_str(value)
    if kind is int:
        return 0 if INT_MIN <= value <= INT_MAX else _refuse_int(value)
    return height_of_members(value, room) if kind is tuple else HEIGHTS[kind](value, room)


def height_of_members(members: Iterable[Any], room: int) -> int:
    """The height of a container with these members. `room` is its own."""
    if room <= 0:  # (!) bounds the recursion of every walk, also over bytes from outside
        raise too_deep()
    highest = 0
    for value in members:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                _check_str(value)
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:
                _refuse_int(value)
        else:
            height = height_of_members(value, room - 1) if kind is tuple else HEIGHTS[kind](value, room - 1)
            highest = max(highest, height)
    return highest + 1


def _check_str(value: str) -> int:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        way_out = "decode its bytes with errors='replace', or keep them as bytes"
        raise PayloadError(
            f"a str with a lone surrogate at position {error.start} is not a payload: {way_out}"
        ) from None
    return 0


def _refuse_int(value: int) -> int:
    raise PayloadError(
        f"an int of {value.bit_length()} bits is not a payload: use -2**63 to 2**64-1, "
        "or str or bytes for bigger ones"
    )


# --- encoding -----------------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The canonical encoding. Raises PayloadError, with the place of the offending part, unless it is a
    payload."""
    try:
        return _dumps(value if type(value) in PLAIN else TO_WIRE[type(value)](value, MAX_DEPTH))
    except _UNENCODABLE as error:
        # Looked into only now: a check before would walk every good payload twice.
        raise _explained(value, error) from None


def encode_wire(wire: Wire) -> bytes:
    """The bytes of a wire of checked payloads."""
    return _dumps(wire)


def encode_many(values: Sequence[Any]) -> bytes:
    """Several payloads as one array. Raises PayloadError like `encode`."""
    try:
        # the array around them is no payload, and costs them no level
        return _dumps(fill_wires(list(values), MAX_DEPTH + 1))
    except _UNENCODABLE as error:
        raise _explained_first(values, error) from None


def encode_item(meta: bytes, value: Any) -> bytes:
    """The bytes of an item, to be joined to others by `join_items`. Raises PayloadError like `encode`."""
    try:
        return _dumps((meta, value if type(value) in PLAIN else TO_WIRE[type(value)](value, MAX_DEPTH)))
    except _UNENCODABLE as error:
        raise _explained(value, error) from None


def join_items(items: Sequence[bytes]) -> bytes:
    """`encode_items` of items that are encoded already."""
    return array_header(len(items)) + b"".join(items)


def encode_items(items: Sequence[tuple[bytes, Any]]) -> bytes:
    """Items, each its meta and its payload, as one array. Raises PayloadError like `encode`."""
    try:
        return _dumps(
            [
                (meta, value if type(value) in PLAIN else TO_WIRE[type(value)](value, MAX_DEPTH))
                for meta, value in items
            ]
        )
    except _UNENCODABLE as error:
        raise _explained_first([value for _, value in items], error) from None


def array_header(length: int) -> bytes:
    """The first bytes of an array of so many elements."""
    # The shortest form, as msgspec writes: else the bytes would not be those of `encode_items`.
    if length < 16:
        return (0x90 | length).to_bytes(1, "big")
    return b"\xdc" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdd" + length.to_bytes(4, "big")


def hash_of_payload(value: Any) -> int:
    """64 bits that depend on the canonical encoding alone."""
    return int.from_bytes(hashlib.blake2b(encode(value), digest_size=8).digest(), "big")


# --- decoding -----------------------------------------------------------------------------------------------


def decode(data: bytes) -> Any:
    """The payload of an encoding. Raises Corrupt for anything that is none."""
    return _read(lambda: value_of(_loaded(_loads, data)))


def decode_many(data: bytes) -> list[Any]:
    """The payloads of `encode_many`. Raises Corrupt."""
    return _read(
        lambda: [wire if type(wire) in SCALARS else value_of(wire) for wire in _loaded(_loads_list, data)]
    )


def decode_items(data: bytes) -> list[tuple[bytes, Any]]:
    """The items of `encode_items`. Raises Corrupt."""
    return _read(
        lambda: [
            (meta, wire if type(wire) in SCALARS else value_of(wire))
            for meta, wire in _loaded(_loads_items, data)
        ]
    )


def _read(read: Callable[[], T]) -> T:
    """The result of `read`; values of a shape that their class had once are read as it is now."""
    try:
        return read()
    except OlderShape:
        # Here: that module stands on this one.
        from flamestream.model.payloads.older import settled

        return settled(read)


def split_items(data: bytes) -> list[tuple[bytes, bytes]]:
    """The items of `encode_items`, their payloads left encoded. Raises Corrupt."""
    items = _loaded(_loads_raw, data)
    # copied: a Raw is a view that keeps all of `data` in memory
    return [(meta, bytes(payload)) for meta, payload in items]


def _loaded(loads: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return loads(data)
    except _UNDECODABLE as error:
        raise Corrupt(f"{len(data)} bytes are not an encoded payload: {error}") from error


# --- checking -----------------------------------------------------------------------------------------------


def check(value: Any) -> None:
    """Raise PayloadError, naming the offending part and the way out, unless `value` is a payload."""
    try:
        height_of(value)
    except PayloadError as error:
        raise _located(value, error) from None


def checked_size(value: Any) -> int:
    """About how many bytes a payload takes: the same in every process. Raises PayloadError like `check`.

    Text and bytes count what they are when encoded, anything else `WORD`. Of a collection its members count
    `WORD` each, whatever they are: they were checked when they were put in, and looking at all of a growing
    state for each item would cost too much.
    """
    check(value)
    return _size_of(value)


def _size_of(value: Any) -> int:
    kind = type(value)
    if kind is str:
        return len(value) if value.isascii() else len(value.encode())
    if kind is bytes:
        return len(value)
    plan = PLANS.get(kind)
    if plan is None:
        return WORD
    if plan.members is None:
        return WORD * (1 + len(value)) if isinstance(value, Sized) else WORD
    return WORD + sum(map(_size_of, plan.members(value)))


def is_payload(value: Any) -> bool:
    """Whether `check` passes."""
    try:
        height_of(value)
    except PayloadError:
        return False
    return True


def _explained(value: Any, error: Exception) -> PayloadError:
    try:
        check(value)
    except PayloadError as refused:
        return refused
    return PayloadError(f"a payload of type {type(value).__name__} cannot be encoded: {error}")


def _explained_first(values: Sequence[Any], error: Exception) -> PayloadError:
    return _explained(next((value for value in values if not is_payload(value)), None), error)


def _located(value: Any, error: PayloadError) -> PayloadError:
    """The error with the path to the part it is about, if that is inside."""
    path, room = "", MAX_DEPTH
    while (inner := _refused_member(value, room)) is not None:
        path, value, room = path + inner[0], inner[1], room - 1
    return PayloadError(f"{error} (at payload{path})") if path else error


def _refused_member(value: Any, room: int) -> tuple[str, Any] | None:
    plan = PLANS.get(type(value))
    if plan is None or plan.members is None or room <= 0:
        return None
    for place, member in enumerate(plan.members(value)):
        try:
            height_of(member, room - 1)
        except PayloadError:
            return f".{plan.labels[place]}" if plan.labels else f"[{place}]", member
    return None


# --- the built-in types -------------------------------------------------------------------------------------


def _float_to_wire(value: float, room: int) -> float:
    return value if value == value else NAN  # noqa: PLR0124 (the fastest test for NaN)


def _tuple_to_wire(value: tuple[Any, ...], room: int) -> list[Wire]:
    if room <= 0:
        raise too_deep()
    return fill_wires([TUPLE_TAG, *value], room)


def _tuple_from_wire(wire: list[Wire], room: int) -> tuple[Any, ...]:
    return tuple(take_values(wire, room))


for _scalar in SCALARS:
    HEIGHTS[_scalar] = lambda value, room: 0
    TO_WIRE[_scalar] = lambda value, room: value
HEIGHTS[int] = lambda value, room: 0 if INT_MIN <= value <= INT_MAX else _refuse_int(value)
HEIGHTS[str] = lambda value, room: 0 if value.isascii() else _check_str(value)
TO_WIRE[float] = _float_to_wire
register(
    Plan(
        tuple,
        TUPLE_TAG,
        "tuple",
        _tuple_to_wire,
        _tuple_from_wire,
        height_of_members,
        lambda value: value,
        None,
        tuple,
    )
)
