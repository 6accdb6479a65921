"""Records of the user's, in all formats: what cannot be read is a ValueError (an error item), and what is
read is a payload."""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from flamestream.connectors.files.lines import CsvRows, JsonRows
from flamestream.connectors.kafka.avro import _from_text, _parsed, _read
from flamestream.connectors.kafka.control import _decode_announcement, _decode_state
from flamestream.connectors.kafka.formats import decoder_of, encoder_of
from flamestream.connectors.kafka.items import pack, place_in
from flamestream.connectors.kit.rows import Rows
from flamestream.connectors.postgres.source import ChangeLog, PostgresReader
from flamestream.connectors.redis.source import RedisReader, Stream, offset_of
from flamestream.job.manifest import parse_job
from flamestream.model import payload as codec
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.decoding import DecodeError
from flamestream.model.errors import UserError
from fuzz.target import Target, attempt, joined, pieces


@codec.payload_type
@dataclass(frozen=True)
class Order:
    """A class of a user's, as rows are read into it."""

    shop: str
    count: int
    price: float = 0.0
    at: int | None = None
    tags: Vector[str] = field(default_factory=Vector)
    parts: Map[str, int] = field(default_factory=Map)
    seen: Set[int] = field(default_factory=Set)


def kafka(data: bytes) -> None:
    """A value of a topic, in each plain format; and it is written as what is read again as the same."""
    for form in ("text", "bytes", "json", "payload"):
        found = attempt(lambda given, form=form: (decoder_of(form)(given),), data, ValueError)  # type: ignore[misc]
        if found is not None:
            codec.check(found[0])
            again = decoder_of(form)(encoder_of(form)(found[0]))
            assert codec.encode(again) == codec.encode(found[0]), (
                f"{form}: {found[0]!r} is written as {again!r}"
            )


FLAG = {"name": "b", "type": "boolean"}
SCHEMAS = [
    _parsed(schema)
    for schema in (
        "string",
        {"type": "array", "items": ["null", "long", "double", "bytes"]},
        {
            "type": "record",
            "name": "L",
            "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "L"]}],
        },
        {"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}, FLAG],
        },
    )
]


def avro(data: bytes) -> None:
    """A value of one of some schemas, chosen by the first byte."""
    if data:
        schema = SCHEMAS[data[0] % len(SCHEMAS)]
        found = attempt(lambda given: (_read(given, schema),), data[1:], ValueError)
        if found is not None:
            codec.check(found[0])


def avro_schema(data: bytes) -> None:
    """A schema of a user's file, or of a registry."""
    attempt(lambda given: _parsed(_from_text(given, "schema")), data, UserError)


def _schemas() -> Iterator[bytes]:
    yield from (json.dumps(schema.parsed).encode() for schema in SCHEMAS)
    yield b'["null","int"]'
    yield b"[1,{}]"


def _avro() -> Iterator[bytes]:
    yield from (b"\0\x06abc", b"\1\x06\0\2\x54\6\2z\0", b"\2\x02\2\4\0", b"\3\2\2a\0\0", b"\4abc\1")


def headers(data: bytes) -> None:
    """Of a topic that others write to: the place of an item, a writer's announcement and state."""
    place = place_in([("flamestream", data)])
    assert place is None or pack(place)
    attempt(_decode_announcement, data, DecodeError)
    attempt(_decode_state, data, DecodeError)


MADE = {cls: Rows(cls) for cls in (None, Order)}


def parsed(parser: JsonRows | CsvRows, header: bytes, line: bytes) -> tuple[Any]:
    return (parser.parse(line, header),)


def rows(data: bytes) -> None:
    """A line of JSON or CSV, as fs.Map and as a class."""
    for cls, made in MADE.items():
        for parser, header in (
            (JsonRows("utf-8", made), b""),
            (JsonRows("latin-1", made), b""),
            (_csv(made), b"shop,count,at\n"),
        ):
            found = attempt(partial(parsed, parser, header), data, ValueError)
            if found is not None:
                codec.check(found[0])
                assert cls is None or type(found[0]) is cls


def _csv(made: Rows) -> CsvRows:
    return CsvRows(made, "utf-8", ",", multiline=True, header=True, columns=[])


def _rows() -> Iterator[bytes]:
    yield (
        b'{"shop": "a", "count": 3, "price": 1e3, "at": null, "tags": ["x"], "parts": {"y": 1}, "seen": [1, '
        b"2]}"
    )
    yield b'"a ""b""",3,\n'
    yield b'[1, [2, {"a": [true, null, -5.5e-3]}]]'


def redis(data: bytes) -> None:
    """An entry of a stream: its id, names and values."""
    name, *parts = [*pieces(data), b""]
    attempt(lambda given: offset_of(given.decode("latin-1")), name, ValueError)
    paired = parts[: len(parts) // 2 * 2]  # what the protocol gives
    for fields, as_bytes in (([], False), ([], True), (["a"], False), (["a", "b"], True)):
        reader = RedisReader(SimpleNamespace(where="Redis"), Stream("s", fields, as_bytes, 0, True), "src")  # type: ignore[arg-type]
        codec.check(reader._chunk([[b"5-0", paired]]).payloads[0])


KINDS: tuple[Callable[[bytes], Any], ...] = (
    lambda part: int.from_bytes(part[:8], "big", signed=True),
    lambda part: struct.unpack(">d", part[:8].ljust(8, b"\0"))[0],
    bool,
    lambda part: part.decode("latin-1").replace("\0", ""),
    bytes,
)


def postgres(data: bytes) -> None:
    """A row of PostgreSQL: values of types that are read as they are, alone, in an array, in an array of
    arrays, with nulls."""
    kind, shape = KINDS[data[0] % len(KINDS)] if data else bytes, data[1:2]
    parts = [kind(part) if part else None for part in pieces(data[2:])]
    value = [parts, list(parts)] if shape > b"\xaa" else parts if shape > b"\x55" or not parts else parts[0]
    (made,) = POSTGRES._chunk([(1, _loaded(value), 2)]).payloads
    codec.check(made)
    if not isinstance(value, list):
        assert codec.encode(made) == codec.encode((value, 2))


POSTGRES = PostgresReader(
    SimpleNamespace(where="there"),  # type: ignore[arg-type]  # nothing is asked of it
    ChangeLog("t", "id", ["a", "b"], True, 0, 0.1),
    "rows",
)


def _loaded(value: Any) -> Any:
    """By way of PostgreSQL's binary form. (psycopg's native code trusts the server: what is no such form may
    end the process.)"""
    if value is None:
        return None
    dumper = Transformer().get_dumper(value, PyFormat.BINARY)
    dumped = dumper.dump(value)
    return None if dumped is None else Transformer().get_loader(dumper.oid, Format.BINARY).load(dumped)


def _postgres() -> Iterator[bytes]:
    for number in range(3 * len(KINDS)):
        yield bytes([number, 0x60 * (number // len(KINDS))]) + joined([b"\0\0\0\0\0\0\0\1", b"a", b""])


JOB = """apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: j, labels: {a: b}}
spec:
  application: {file: app.py, graph: graph}
  workers: {replicas: 2, standby: 1}
  guarantee: exactly-once
  checkpoint: {store: ./store, interval: 1s}
  sources: {docs: {socket: {address: "host:7001"}}, more: {files: {path: &p ./in}}}
  sinks: {index: {files: {path: *p}}}
"""


def job_file(data: bytes) -> None:
    """A job.yaml."""
    attempt(lambda given: parse_job(given.decode("utf-8", "replace"), "job.yaml"), data, UserError)


TARGETS = (
    Target(
        "kafka",
        kafka,
        lambda: [b'{"a": [1, 2.5, null, "x"]}', b"w\xc3\xb6rd", codec.encode((1, Map({"a": Vector([b""])})))],
    ),
    Target("avro", avro, _avro),
    Target("avro-schema", avro_schema, _schemas, runs=10_000),
    Target(
        "kafka-headers",
        headers,
        lambda: [pack((b"t", 1, 0, 2, 3, 1, b"m", b"d")), pack((1, (1, 0), "w", {0: 5}))],
        runs=20_000,
    ),
    Target("rows", rows, _rows),
    Target("redis", redis, lambda: [joined([b"5-3", b"a", b"1", b"b", b"\xff"])]),
    Target("postgres", postgres, _postgres),
    Target("job-file", job_file, lambda: [JOB.encode()], runs=300),
)
