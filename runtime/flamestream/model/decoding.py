"""Bytes from outside, as JSON or msgpack: what comes is a value of the type that was asked for, or
`DecodeError`, and nothing else.

msgspec lets other errors through where text is not UTF-8, or nested deeper than Python's stack; they would be
taken for bugs, and one job's bytes would end a loop that all jobs share.

Keeps: one error type; a test looks that nothing else decodes (tests/unit/model/test_decoding.py). Does not:
say whose fault the bytes are (the caller does, as Corrupt or UserError), or decode payloads
(payloads/encoding.py, which has its own).
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import msgspec

T = TypeVar("T")
V = TypeVar("V")
Packed: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = Packed | str
DecodeError = msgspec.DecodeError
MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError)
"""Every error that msgspec raises because of the bytes it is given."""


def guarded(decode: Callable[[V], T]) -> Callable[[V], T]:
    """`decode` with one error: it raises DecodeError whatever is wrong with the bytes."""

    def guard(data: V) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError:
            raise
        except MALFORMED as error:
            raise DecodeError(f"{error}" or type(error).__name__) from error

    return guard


@overload
def json_decoder(kind: type[T]) -> Callable[[Data], T]: ...
@overload
def json_decoder(kind: object = Any) -> Callable[[Data], Any]: ...
def json_decoder(kind: Any = Any) -> Callable[[Data], Any]:
    """A decoder of JSON (bytes or text) that has to be a `kind`; it raises DecodeError."""
    return guarded(msgspec.json.Decoder(kind).decode)


def json_lines_decoder(kind: type[T]) -> Callable[[bytes], list[T]]:
    """A decoder of JSON documents behind each other, as lines or not; it raises DecodeError."""
    return guarded(msgspec.json.Decoder(kind).decode_lines)


@overload
def msgpack_decoder(kind: type[T]) -> Callable[[Packed], T]: ...
@overload
def msgpack_decoder(kind: object = Any) -> Callable[[Packed], Any]: ...
def msgpack_decoder(kind: Any = Any) -> Callable[[Packed], Any]:
    """A decoder of msgpack that has to be a `kind`; it raises DecodeError."""
    return guarded(msgspec.msgpack.Decoder(kind).decode)


@overload
def from_json(data: Data, kind: type[T]) -> T: ...
@overload
def from_json(data: Data, kind: object = Any) -> Any: ...
def from_json(data: Data, kind: Any = Any) -> Any:
    """The `kind` that JSON (bytes or text) holds. Raises DecodeError."""
    return json_decoder(kind)(data)


@overload
def from_msgpack(data: Packed, kind: type[T]) -> T: ...
@overload
def from_msgpack(data: Packed, kind: object = Any) -> Any: ...
def from_msgpack(data: Packed, kind: Any = Any) -> Any:
    """The `kind` that msgpack bytes hold. Raises DecodeError."""
    return msgpack_decoder(kind)(data)
