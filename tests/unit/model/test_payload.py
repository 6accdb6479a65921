"""The face of payloads: what is refused and how, fixed bytes, hashes, depth, and bytes from outside."""

import enum
import fractions
import hashlib
import subprocess
import sys
from collections import namedtuple
from typing import Any

import msgspec
import pytest

from flamestream.model import payload
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payload import ErrorValue


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "named", "way_out"),
    [
        ([1], "list", "use a tuple or fs.Vector"),
        ({"a": 1}, "dict", "use fs.Map"),
        ({1}, "set", "use fs.Set"),
        (frozenset(), "frozenset", "use fs.Set"),
        (bytearray(b"x"), "bytearray", "use bytes"),
        (1j, "complex", "two floats"),
        (Colour.RED, "Colour", "use value.value"),
        (Text("x"), "Text", "use str(value)"),
        (Point(1, 2), "Point", "frozen dataclass"),
        (fractions.Fraction(1), "fractions.Fraction", "numerator and denominator"),
        (len, "builtin_function_or_method", "functions and types are not data"),
        (object(), "object", "@fs.payload_type"),
        (1 << 64, "int of 65 bits", "str or bytes"),
        (-(1 << 63) - 1, "int of 64 bits", "str or bytes"),
        ("a\ud800", "lone surrogate at position 1", "errors='replace'"),
    ],
)
def test_what_is_no_payload_is_refused_with_its_type_and_the_way_out(
    value: Any, named: str, way_out: str
) -> None:
    for refuse in (
        payload.check,
        payload.encode,
        lambda v: payload.encode_many([1, v]),
        lambda v: payload.encode_item(b"m", v),
    ):
        with pytest.raises(PayloadError) as refused:
            refuse(value)
        assert named in str(refused.value)
        assert way_out in str(refused.value)
    assert not payload.is_payload(value)
    assert not payload.is_payload((1, value))


def test_a_numpy_scalar_is_sent_to_item() -> None:
    scalar = type("int64", (), {"__module__": "numpy"})()
    with pytest.raises(PayloadError, match=r"numpy\.int64 is not a payload: use value\.item\(\)"):
        payload.check(scalar)


def test_a_refusal_says_where_inside_the_payload_the_part_is() -> None:
    with pytest.raises(PayloadError, match=r"list is not a payload.*\(at payload\[1\]\.message\[0\]\)"):
        payload.encode((1, _error_with(([],))))


def _error_with(message: Any) -> ErrorValue:
    error = ErrorValue("f", "ValueError", "")
    object.__setattr__(error, "message", message)
    return error


def test_the_encoding_is_fixed() -> None:
    """These bytes are in journals, snapshots and sinks: a change of them is a change of format."""
    assert payload.encode((1, True, 1.0, None, "a", b"b")) == bytes.fromhex(
        "970001c3cb3ff0000000000000c0a161c40162"
    )
    assert payload.encode(Vector([1])) == bytes.fromhex("920101")
    assert payload.encode(Map({"a": 1, 2: 3})) == bytes.fromhex("95020203a16101")
    assert payload.encode(Set([2, 1])) == bytes.fromhex("93030102")
    tag = hashlib.blake2b(b"flamestream.model.payload:ErrorValue", digest_size=4).digest()
    in_range = bytes([tag[0] | 0x80]) + tag[1:]
    start = b"\xce" + in_range + bytes.fromhex("a166a145a16da0ff")
    assert payload.encode(ErrorValue("f", "E", "m")) == b"\x9a" + start + bytes.fromhex("a0ffa09100")
    assert payload.decode(b"\x96" + start) == ErrorValue("f", "E", "m"), "as earlier releases stored it"


def test_the_hash_is_the_same_in_every_process() -> None:
    program = "from flamestream.model.payload import hash_of_payload; print(hash_of_payload(('word', 1)))"
    for seed in ("0", "1"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) == payload.hash_of_payload(("word", 1))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


def test_nesting_is_bounded_where_it_is_checked_encoded_and_decoded_alike() -> None:
    deepest = nested(payload.MAX_DEPTH)
    payload.check(deepest)
    assert payload.decode(payload.encode(deepest)) == deepest
    assert payload.decode_many(payload.encode_many([deepest])) == [deepest]
    for refuse in (payload.check, payload.encode):
        with pytest.raises(PayloadError, match="nests deeper than 64"):
            refuse(nested(payload.MAX_DEPTH + 1))
        with pytest.raises(PayloadError, match="nests deeper than 64"):
            refuse(nested(50_000))
    with pytest.raises(Corrupt, match="nests deeper than 64"):
        payload.decode(b"\x92\x00" * payload.MAX_DEPTH + b"\x92\x00\x01")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x01",
        b"\x90",
        b"\x91\xc3",
        b"\x91\xa1a",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xa1\xff",
        b"\x81\x01\x01",
        b"\x81\x91\x01\x01",
        b"\x81\x80\x01",
        b"\xd4\x05\x00",
        b"\xd6\xff\x00\x00\x00\x01",
        b"\x92\x00\xd6\xff\x00\x00\x00\x01",
        b"\x92\x02\x01",
        b"\x95\x02\x02\x00\x01\x00",
        b"\x93\x03\x01\x01",
        b"\x93\x03\x02\x01",
    ],
)
def test_hostile_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        payload.decode(data)


def test_an_unknown_class_is_corrupt_and_the_message_says_what_to_do() -> None:
    with pytest.raises(Corrupt, match=r"type tag 2147483648.*@fs\.payload_type and import"):
        payload.decode(msgspec.msgpack.encode([1 << 31, 1]))


def test_items_and_many_of_the_wrong_shape_are_corrupt() -> None:
    for data in (b"\x01", b"\x91\x01", b"\x91\x92\xa1a\x01", b"\x91\x93\xc4\x00\x01\x01"):
        with pytest.raises(Corrupt):
            payload.decode_items(data)
    with pytest.raises(Corrupt):
        payload.decode_many(b"\x01")


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65535, 65536])
def test_joining_writes_the_array_header_of_every_size(count: int) -> None:
    assert payload.join_items([payload.encode_item(b"", 1)] * count) == payload.encode_items(
        [(b"", 1)] * count
    )


def test_an_error_value_can_quote_what_no_payload_can_hold() -> None:
    error = ErrorValue("f", "FileNotFoundError", "no file 'a\udcff'")
    assert payload.decode(payload.encode(error)) == error
    assert error.message == "no file 'a\\udcff'"
