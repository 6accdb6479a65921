"""Formats of Kafka values: what is read depends on the bytes alone, and what cannot be read or written says
why."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pytest

import flamestream as fs
from flamestream.connectors.kafka.avro import Avro
from flamestream.connectors.kafka.formats import AvroFormat, Format, decoder_of, encoder_of
from flamestream.model.errors import UserError

SCHEMA = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"}, {"name": "when", "type": {"type": "int", "logicalType": "date"}},
  {"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "note", "type": ["null", "bytes"]}]}"""


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Order:
    id: int
    when: int
    tags: tuple[str, ...]
    note: bytes | None


@pytest.fixture
def avro(tmp_path: Path) -> AvroFormat:
    (tmp_path / "order.avsc").write_text(SCHEMA)
    return AvroFormat(Avro(schema=str(tmp_path / "order.avsc")))


@pytest.mark.parametrize(
    ("form", "data", "payload"),
    [
        ("text", "wörd".encode(), "wörd"),
        ("bytes", b"\xff", b"\xff"),
        ("json", b'{"a": [1, 2.5, null, true, "x"]}', fs.Map({"a": (1, 2.5, None, True, "x")})),
        ("payload", encoder_of("payload")((1, fs.Vector([2]))), (1, fs.Vector([2]))),
    ],
)
def test_values_are_read_and_written_alike(form: Format, data: bytes, payload: Any) -> None:
    assert decoder_of(form)(data) == payload
    assert decoder_of(form)(encoder_of(form)(payload)) == payload


@pytest.mark.parametrize(
    ("form", "data", "why"),
    [
        ("text", b"a\xff", "byte 1 (0xff) is not UTF-8"),
        ("json", b'{"a": ', "not JSON"),
        ("json", b"[18446744073709551616]", "64-bit"),
        ("json", b"[" * 200 + b"]" * 200, "deeper"),
        ("json", b"[" * 100_000, "not JSON"),
        ("payload", b"\xc1", "not an encoded payload"),
    ],
)
def test_bytes_of_another_format_say_why(form: Format, data: bytes, why: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the message is the promise
        decoder_of(form)(data)
    assert why in str(error.value)


def test_every_payload_has_a_json_form() -> None:
    order = Order(7, 20000, ("a", "b"), b"\x01")
    value = fs.Map({"orders": fs.Vector([order]), "seen": fs.Set([3, 1])})
    assert (
        encoder_of("json")(value)
        == b'{"seen":[1,3],"orders":[{"id":7,"when":20000,"tags":["a","b"],"note":"AQ=="}]}'
    )


@pytest.mark.parametrize(("form", "payload"), [("text", 1), ("bytes", "x"), ("json", fs.Map({1: 2}))])
def test_a_payload_that_does_not_fit_says_what_to_do(form: Format, payload: Any) -> None:
    with pytest.raises(ValueError, match="use "):
        encoder_of(form)(payload)


def test_avro_of_a_class_is_read_as_a_map(avro: AvroFormat) -> None:
    data = encoder_of(avro)(Order(7, 20000, ("a",), None))
    assert decoder_of(avro)(data) == fs.Map({"id": 7, "when": 20000, "tags": ("a",), "note": None})


def test_avro_of_another_library_is_the_same(avro: AvroFormat) -> None:
    made = io.BytesIO()
    plain = fastavro.parse_schema(__import__("json").loads(SCHEMA.replace(', "logicalType": "date"', "")))
    fastavro.schemaless_writer(made, plain, {"id": 7, "when": 20000, "tags": [], "note": b"n"})
    assert made.getvalue() == encoder_of(avro)(fs.Map({"id": 7, "when": 20000, "tags": (), "note": b"n"}))


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x02\x02\x80", b"\x02\x02\x00\x00more"])
def test_bytes_that_are_not_of_the_schema_say_so(avro: AvroFormat, data: bytes) -> None:
    with pytest.raises(ValueError, match="Avro schema"):
        decoder_of(avro)(data)


def avro_of(folder: Path, schema: str) -> AvroFormat:
    (folder / "it.avsc").write_text(schema)
    return AvroFormat(Avro(schema=str(folder / "it.avsc")))


LINKED = """{"type": "record", "name": "L", "namespace": "x", "fields": [{"name": "next", "type": ["null", "L"]}]}"""


@pytest.mark.parametrize("depth", [200, 300, 900_000])
def test_avro_of_a_type_that_holds_itself_is_refused_where_it_is_too_deep(tmp_path: Path, depth: int) -> None:
    """The attack: fastavro's native reader takes the stack, and the process with it."""
    with pytest.raises(ValueError, match=r"RecursionError|deeper"):
        decoder_of(avro_of(tmp_path, LINKED))(b"\x02" * depth + b"\x00")


def test_avro_of_a_type_that_holds_itself_is_read(tmp_path: Path) -> None:
    read = decoder_of(avro_of(tmp_path, LINKED))(b"\x02\x02\x00")
    assert read == fs.Map({"next": fs.Map({"next": fs.Map({"next": None})})})


@pytest.mark.parametrize(
    "items",
    [
        '"null"',
        '{"type": "fixed", "name": "F", "size": 0}',
        '{"type": "record", "name": "R", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "record", "name": "S", '
        '"fields": []}}]}',
    ],
)
def test_an_avro_list_of_nothing_is_refused_with_its_schema(tmp_path: Path, items: str) -> None:
    """The attack: ten bytes that are 2**60 nulls."""
    with pytest.raises(UserError, match="elements of an array in the schema take no bytes"):
        decoder_of(avro_of(tmp_path, f'{{"type": "array", "items": {items}}}'))


def test_an_avro_list_of_optional_values_is_read(tmp_path: Path) -> None:
    """Each takes a byte, also one that is null."""
    assert decoder_of(avro_of(tmp_path, '{"type": "array", "items": ["null", "int"]}'))(
        b"\x04\x00\x02\x02\x00"
    ) == (None, 1)
