"""Bytes from outside, as JSON or msgpack: what comes is a value of the type that was asked for, or `DecodeError`, and nothing else.

msgspec lets other errors through where text is not UTF-8, or nested deeper than Python's stack; they would be taken for bugs, and
one job's bytes would end a loop that all jobs share.

Keeps: one error type; a test looks that nothing else decodes (tests/unit/model/test_decoding.py). Does not: say whose fault the bytes
are (the caller does, as Corrupt or UserError), or decode payloads (payload_codec.py, which has its own).
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

DecodeError = msgspec.DecodeError
MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError)
"""What msgspec raises about bytes."""


def guarded(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    """The same, which raises DecodeError whatever is wrong with the bytes."""

    def guard(data: Any) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError:
            raise
        except MALFORMED as error:
            raise DecodeError(f"{error}" or type(error).__name__) from error

    return guard


@overload
def json_decoder(kind: type[T]) -> Callable[[Any], T]: ...
@overload
def json_decoder(kind: Any = Any) -> Callable[[Any], Any]: ...
def json_decoder(kind: Any = Any) -> Callable[[Any], Any]:
    """Of JSON (bytes or text) that has to be a `kind`."""
    return guarded(msgspec.json.Decoder(kind).decode)


@overload
def msgpack_decoder(kind: type[T]) -> Callable[[Any], T]: ...
@overload
def msgpack_decoder(kind: Any = Any) -> Callable[[Any], Any]: ...
def msgpack_decoder(kind: Any = Any) -> Callable[[Any], Any]:
    """Of msgpack that has to be a `kind`."""
    return guarded(msgspec.msgpack.Decoder(kind).decode)


@overload
def from_json(data: Any, kind: type[T]) -> T: ...
@overload
def from_json(data: Any, kind: Any = Any) -> Any: ...
def from_json(data: Any, kind: Any = Any) -> Any:
    """The value. Raises DecodeError."""
    return json_decoder(kind)(data)


@overload
def from_msgpack(data: Any, kind: type[T]) -> T: ...
@overload
def from_msgpack(data: Any, kind: Any = Any) -> Any: ...
def from_msgpack(data: Any, kind: Any = Any) -> Any:
    """The value. Raises DecodeError."""
    return msgpack_decoder(kind)(data)
