"""Payloads as others read them, and what counts as the same value."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import flamestream as fs
from flamestream.connectors.kafka.formats import encoder_of
from flamestream.connectors.kafka.place_partitions import murmur2, partition_of
from flamestream.connectors.kafka.place_values import agrees_as
from flamestream.connectors.kit.plain_values import BASE64, HEX, form, form_of_text, plain
from flamestream.connectors.redis.entries import text
from flamestream.model.payloads.exact import exact


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Pair:
    left: Any
    right: Any


VALUES = [
    None, True, False, 0, 1, -(2**63), 2**64 - 1, 1.5, -0.0, 1e20, 1e-7, "", "ä \"\\\n", "1", (),
    (1, ("a", None)), Pair(1, (2, "x")), fs.Vector([1, 2]), fs.Map({"a": (1,), "b": Pair(None, True)}),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_the_sinks_write_is_what_is_expected(value: Any) -> None:
    """Both are from the same documents, and not from each other."""
    assert form_of_text(encoder_of("json")(value)) == form(plain(value, BASE64))
    if not isinstance(value, str):
        assert form_of_text(text(value)) == form(plain(value, HEX))


@pytest.mark.parametrize(
    ("value", "hexadecimal", "base64"), [(b"\x00\xff", "\\x00ff", "AP8="), (math.nan, "NaN", None)]
)
def test_what_json_has_no_word_for(value: Any, hexadecimal: str, base64: str | None) -> None:
    assert (plain(value, HEX), plain(value, BASE64)) == (hexadecimal, base64)
    assert msgspec.json.decode(encoder_of("json")((value,))) == [base64]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), ("1", 1), (None, "null"), ([1], [1, 1]), ({"a": 1}, {"a": "1"}), ({}, [])],
)
def test_forms_of_different_values_differ(one: Any, other: Any) -> None:
    assert form(one) != form(other)


def test_numbers_are_numbers_and_objects_have_no_order() -> None:
    assert form(1) == form(1.0)
    assert form({"a": 1, "b": [2]}) == form({"b": [2.0], "a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("1", b"1"),
        ((1,), fs.Vector([1])),
        (0.0, -0.0),
        (Pair(1, 2), Pair(1, 3)),
        (fs.Map({"a": 1}), fs.Map({"a": 2})),
    ],
)
def test_exact_forms_tell_types_apart(one: Any, other: Any) -> None:
    assert exact(one) != exact(other)
    assert exact(one) == exact(one)


@pytest.mark.parametrize("value", ["json", "payload"])
def test_a_value_agrees_with_its_payload_alone(value: str) -> None:
    agrees, encode = agrees_as(value), encoder_of(value)  # type: ignore[arg-type]  # one of the two
    for payload in VALUES:
        if payload is not None:
            assert agrees(encode(payload), payload)
            assert not agrees(encode((payload, "more")), payload)
    assert not agrees(b"\xc1 no such thing", "x")


def test_text_and_bytes_are_what_they_are() -> None:
    assert agrees_as("text")("ä".encode(), "ä")
    assert not agrees_as("text")(b"a", b"a")
    assert agrees_as("bytes")(b"\xff", b"\xff")
    assert not agrees_as("bytes")(b"a", "a")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971), ("abc", 479470107),
    ],
)  # fmt: skip
def test_murmur2_is_that_of_java(key: str, hashed: int) -> None:
    """The values are those of Kafka's own test, UtilsTest.testMurmur2."""
    assert murmur2(key.encode()) == hashed


def test_chance_chooses_where_there_is_no_key() -> None:
    assert partition_of("murmur2_random", None, 5, 3) is None
    assert partition_of("murmur2_random", b"", 5, 3) is not None
    assert partition_of("consistent_random", b"", 5, 3) is None
    assert partition_of("random", b"key", 5, 3) is None
    assert partition_of("slot", None, 5, 3) == 2
