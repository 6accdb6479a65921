"""Every setting of every source, sink and client has an effect, or is refused: a row a setting, and a row a value of
each enumeration."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flamestream as fs
from flamestream.connectors import clients, sinks, sources
from flamestream.connectors.installed import client_kinds, sink_kinds, source_kinds
from flamestream.model.errors import FlameStreamError
from support.fields import Leaf, Row, leaves, uncovered
from support.views import connectors as see

HERE = __name__


@fs.payload_type
@dataclass(frozen=True)
class Rowed:
    """A class of an application."""

    n: str


def doubled(number: int) -> int:
    """A function that a generator names."""
    return number * 2


def taken(items: Any) -> None:
    """A function that a callback names."""


def other(items: Any) -> None:
    """Another."""


class Tape:
    """A source and a sink of one's own."""

    timed = bounded = fences = True
    ended, idle_seconds, problem = True, 0.0, ""

    def __init__(self, settings: dict[str, Any], *_: Any) -> None:
        self.settings = settings

    def seek(self, offsets: Any) -> None: ...
    def next(self, records: int, size: int) -> Any: ...
    def read(self, entry: Any) -> Any: ...
    def open(self, action: Any) -> Any: ...
    def deliver(self, action: Any) -> Any: ...
    def close(self) -> None: ...


class Loose(Tape):
    """One that cannot fence, and never ends."""

    timed = bounded = fences = False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`a` and `b` have a text each, with a letter that encodings differ in; beside them CSV, JSON lines and
    Parquet."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_bytes(f"{name} é\nzwei\n".encode())
    (tmp_path / "a" / "two.log").write_text("log\n")
    (tmp_path / "a" / "names").write_text("two.log\n")
    (tmp_path / "a" / "link.txt").symlink_to(tmp_path / "b" / "one.txt")
    for name in ("csv", "jsonl", "parquet", "gz", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv" / "rows.csv").write_text('n,m\n1,2\n"3\n4",5\n')
    (tmp_path / "jsonl" / "rows.jsonl").write_text('{"n": "1"}\n')
    pq.write_table(pa.table({"n": ["1"], "m": ["2"]}), tmp_path / "parquet" / "rows.parquet")
    (tmp_path / "gz" / "x.gz").write_bytes(gzip.compress(b"text"))
    (tmp_path / "password").write_text("p")
    (tmp_path / "schema.json").write_text('"string"')
    (tmp_path / "record.json").write_text('{"type": "record", "name": "r", "fields": []}')
    return tmp_path


def rows(kind: str, least: dict[str, Any], *of: tuple[Any, ...]) -> list[Row]:
    """Of one kind: (setting, value, view, further settings), or a sentence with a blank in place of the
    view."""
    made = []
    for name, value, sees, *given in of:
        further = {f"{kind}.{key}": each for key, each in {**least, **(given[0] if given else {})}.items()}
        refusal = sees if " " in sees else ""
        made.append(Row(f"{kind}.{name}", value, "" if refusal else sees, further, refused=refusal))
    return made


KAFKA = {"brokers": "k:9092", "topic": "t"}
AVRO = {"avro": {"registry": "http://r:1"}}
REGISTERED = {"avro": {"registry": "http://r:1", "schema": "FOLDER/schema.json", "subject": "s"}}
REDIS = {"url": "redis://h:1/0", "key": "k"}
POSTGRES = {"dsn": "postgresql://h/d", "table": "t", "columns": ["n"]}
SOURCES = [
    *rows(
        "files", {"path": "FOLDER/a"},
        ("path", "FOLDER/b", "records"),
        ("paths", ["FOLDER/b"], "records", {"path": None, "paths": ["FOLDER/a", "FOLDER/b"]}),
        ("pattern", "*.txt", "records"),
        ("manifest", "names", "records"),
        ("followLinks", True, "records"),
        ("followLinks", True, "S3 has no links", {"path": "s3://b/p"}),
        ("follow", True, "traits"),
        ("format", "jsonl", "records", {"path": "FOLDER/jsonl"}),
        ("format", "csv", "records", {"path": "FOLDER/csv"}),
        ("format", "parquet", "records", {"path": "FOLDER/parquet"}),
        ("records", "lines", "records"),
        ("records", "files", "traits", {"records": "lines"}),
        ("records", "lines", "`records` is for format: text", {"format": "csv"}),
        ("encoding", "latin-1", "records"),
        ("encoding", "latin-1", "Parquet says itself how its text is encoded", {"format": "parquet"}),
        ("type", f"{HERE}:Rowed", "records", {"path": "FOLDER/jsonl", "format": "jsonl"}),
        ("type", f"{HERE}:Rowed", "`type` is for rows"),
        ("columns", ["n"], "records", {"path": "FOLDER/parquet", "format": "parquet"}),
        ("columns", ["n"], "`columns` is for csv and parquet"),
        ("tuples", True, "records", {"path": "FOLDER/parquet", "format": "parquet"}),
        ("tuples", True, "`tuples` is for format: parquet"),
        ("delimiter", ";", "records", {"path": "FOLDER/csv", "format": "csv"}),
        ("header", False, "records", {"path": "FOLDER/csv", "format": "csv", "columns": ["n", "m"]}),
        ("multiline", True, "records", {"path": "FOLDER/csv", "format": "csv"}),
        ("multiline", True, "are for format: csv"),
    ),
    *rows(
        "generator", {},
        ("count", 3, "traits"),
        ("rate", 5.0, "source"),
        ("function", f"{HERE}:doubled", "source"),
    ),
    *rows("parquet", {}, ("path", "x", "write files: {path: x, pattern")),
    *rows("socket", {"address": "h:1"}, ("address", "h:2", "source"), ("payload", "bytes", "source")),
    *rows("memory", {"name": "one"}, ("name", "two", "channel")),
    *rows("connector", {"class": f"{HERE}:Tape"}, ("class", f"{HERE}:Loose", "traits"), ("settings", {"a": 1}, "source")),
    *rows(
        "kafka", KAFKA,
        ("brokers", "k:9093", "source"),
        ("settings", {"client.id": "x"}, "source"),
        ("secrets", {"sasl.password": {"env": "HOME"}}, "source"),
        ("secrets", {"sasl.password": {"file": "FOLDER/password"}}, "source"),
        ("topic", "u", "source"),
        ("start", "latest", "source"),
        *(("value", value, "source") for value in ("bytes", "json", "payload")),
        ("value", {"avro": {"schema": "FOLDER/schema.json"}}, "source"),
        ("value.avro.schema", "FOLDER/record.json", "source", {"value": {"avro": {"schema": "FOLDER/schema.json"}}}),
        ("value.avro.schema", "FOLDER/record.json", "a source takes each schema from the registry", {"value": AVRO}),
        ("value.avro.subject", "s", "a source takes each schema from the registry", {"value": AVRO}),
        ("value.avro.subject", "s", "`subject` and `user` are of a `registry`", {"value": {"avro": {"schema": "FOLDER/schema.json"}}}),
        ("value.avro.registry", "http://r:2", "source", {"value": AVRO}),
        ("value.avro.user", "HOME", "source", {"value": AVRO}),
        *(("key", value, "source", {"record": "full"}) for value in ("bytes", "json", "payload")),
        ("key", "json", "`key` is of `record: full`"),
        ("key.avro.schema", "FOLDER/record.json", "source", {"record": "full", "key": {"avro": {"schema": "FOLDER/schema.json"}}}),
        ("key.avro.registry", "http://r:2", "source", {"record": "full", "key": AVRO}),
        ("key.avro.user", "HOME", "source", {"record": "full", "key": AVRO}),
        ("key.avro.subject", "s", "a source takes each schema from the registry", {"record": "full", "key": AVRO}),
        ("record", "full", "source"),
        ("isolation", "read_uncommitted", "source"),
        ("readers", 2, "traits"),
        ("discoverSeconds", 20.0, "looks_again"),
        ("group", "g", "source"),
        ("group", "", "`group` is the name of a consumer group"),
        ("group", "g", "two names of one group", {"settings": {"group.id": "h"}}),
    ),
    *rows(
        "postgres", {**POSTGRES, "key": "id"},
        ("dsn", "postgresql://i/d", "source"),
        ("table", "u", "source"),
        ("key", "jd", "source"),
        ("columns", ["n", "m"], "source"),
        ("follow", False, "source"),
        ("start", 5, "source"),
        ("poll_ms", 50, "source"),
        ("password_file", "FOLDER/password", "source"),
    ),
    *rows(
        "http", {"listen": "127.0.0.1:1", "keys": "FOLDER/keys"},
        ("listen", "127.0.0.1:2", "source"),
        ("keys", "FOLDER/others", "source"),
        ("path", "/in", "source"),
        ("payload", "bytes", "source"),
        ("records", "lines", "source"),
        ("remember", 5, "source"),
        ("fsync", False, "source"),
        ("max_body", 5, "source"),
        ("max_waiting", 1 << 21, "source"),
        ("token_file", "FOLDER/password", "source"),
    ),
    *rows(
        "redis", REDIS,
        ("url", "redis://i:1/0", "source"),
        ("key", "l", "source"),
        ("fields", ["n"], "source"),
        ("values", "bytes", "source"),
        ("start", "5-0", "source"),
        ("follow", False, "source"),
        ("durable", False, "source"),
        ("password_file", "FOLDER/password", "source"),
    ),
]  # fmt: skip
HASH = {**REDIS, "form": "hash", "field": "n"}
STREAM = {**REDIS, "form": "stream"}
ROLLING = {"path": "FOLDER/out/one", "format": "jsonl"}
SINKS = [
    *rows("files", {"path": "FOLDER/out/one"}, ("path", "FOLDER/out/two", "written"), ("fsync", False, "written")),
    *rows("socket", {"address": "h:1"}, ("address", "h:2", "sink")),
    *rows("callback", {"function": f"{HERE}:taken"}, ("function", f"{HERE}:other", "sink")),
    *rows("connector", {"class": f"{HERE}:Tape"}, ("class", f"{HERE}:Loose", "fences"), ("settings", {"a": 1}, "sink")),
    *rows(
        "kafka", KAFKA,
        ("brokers", "k:9093", "sink"),
        ("settings", {"client.id": "x"}, "sink"),
        ("secrets", {"sasl.password": {"env": "HOME"}}, "sink"),
        ("secrets", {"sasl.password": {"file": "FOLDER/password"}}, "sink"),
        ("topic", "u", "sink"),
        ("form", "low-latency", "sink"),
        *(("value", value, "sink") for value in ("bytes", "text", "payload")),
        ("value.avro.schema", "FOLDER/record.json", "sink", {"value": {"avro": {"schema": "FOLDER/schema.json"}}}),
        ("value.avro.registry", "http://r:2", "looked_up", {"value": REGISTERED}),
        ("value.avro.subject", "t", "looked_up", {"value": REGISTERED}),
        ("value.avro.user", "HOME", "looked_up", {"value": REGISTERED}),
        ("key", "n", "sink"),
        ("partitioner", "slot", "sink"),
        ("partitioner", "random", "sink"),
        ("control", "c", "sink"),
        ("commitSeconds", 1.0, "sink", {"form": "low-latency"}),
        ("commitSeconds", 1.0, "`commitSeconds` is of `form: low-latency`"),
        ("traceparent", True, "sink"),
    ),
    *rows(
        "postgres", POSTGRES,
        ("dsn", "postgresql://i/d", "sink"),
        ("table", "u", "sink"),
        ("columns", {"n": "$payload"}, "sink"),
        ("key", ["n"], "sink"),
        ("state", "s", "sink"),
        ("history", "h", "sink"),
        ("password_file", "FOLDER/password", "sink"),
    ),
    *rows(
        "rolling", ROLLING,
        ("path", "FOLDER/out/two", "written"),
        ("format", "parquet", "written"),
        ("type", f"{HERE}:Rowed", "sink"),
        ("rollBytes", 1024, "written"),
        ("rollSeconds", 5.0, "written"),
        ("segmentSeconds", 5.0, "written"),
    ),
    *rows(
        "events", {"path": "FOLDER/out", "listen": "127.0.0.1:1"},
        ("path", "FOLDER/a", "sink"),
        ("listen", "127.0.0.1:2", "sink"),
        ("url", "/all", "sink"),
        ("allow_origin", "*", "sink"),
        ("fsync", False, "sink"),
        ("poll_ms", 50, "sink"),
    ),
    *rows(
        "http", {"url": "http://h/", "contract": "fenced"},
        ("url", "http://i/", "sink"),
        ("contract", "idempotent", "sink"),
        ("timeout_ms", 50, "sink"),
        ("batch", 1, "sink", {"contract": "idempotent"}),
        ("batch", 1, "`batch` is of `contract: idempotent`"),
        ("token_file", "FOLDER/password", "sink"),
        ("traceparent", True, "sink"),
    ),
    *rows(
        "redis", HASH,
        ("url", "redis://i:1/0", "sink"),
        ("key", "l", "sink"),
        ("field", "m", "sink"),
        ("field", "m", "`form: stream` has none", {"form": "stream"}),
        ("value", "m", "sink"),
        ("value", "m", "`value` is of a hash", {"form": "stream", "field": None}),
        ("fields", ["n"], "sink", {"form": "stream", "field": None}),
        ("fields", ["n"], "`fields` is of a stream"),
        ("max_length", 5, "sink", {"form": "stream", "field": None}),
        ("max_length", 5, "`max_length` is of a stream"),
        ("history", "h", "sink"),
        ("history", "h", "`history` needs `durable`", {"durable": False}),
        ("durable", False, "fences"),
        ("password_file", "FOLDER/password", "sink"),
    ),
    Row("redis.form", "stream", "sink", {f"redis.{name}": value for name, value in HASH.items()}, along={"redis.field": None}),
]  # fmt: skip

CLIENTS = [
    *rows(
        "postgres", {"dsn": "postgresql://h/d"},
        ("dsn", "postgresql://i/d", "client"),
        ("connections", 11, "client"),
        ("connections", 0, "`connections` is at least 1"),
        ("password_file", "FOLDER/password", "client"),
    ),
    *rows(
        "redis", {"url": "redis://h:1/0"},
        ("url", "redis://i:1/0", "client"),
        ("connections", 11, "client"),
        ("connections", 0, "`connections` is at least 1"),
        ("password_file", "FOLDER/password", "client"),
    ),
]  # fmt: skip


def every(kinds: dict[str, Any]) -> Iterator[Leaf]:
    for name, kind in kinds.items():
        yield from leaves(kind, f"{name}.")


@pytest.mark.parametrize(
    ("kinds", "table"),
    [(source_kinds(), SOURCES), (sink_kinds(), SINKS), (client_kinds(), CLIENTS)],
    ids=["sources", "sinks", "clients"],
)
def test_every_setting_and_every_value_of_an_enumeration_has_a_row(
    kinds: dict[str, Any], table: list[Row]
) -> None:
    assert uncovered(every(kinds), table) == []


def in_folder(value: Any, folder: Path) -> Any:
    """With FOLDER where it is."""
    if isinstance(value, dict):
        return {key: in_folder(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [in_folder(each, folder) for each in value]
    return value.replace("FOLDER", str(folder)) if isinstance(value, str) else value


def viewed(name: str, spec: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if name == "written":
        for each in sorted((folder / "out").rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        return see.written(spec, folder / "out", monkeypatch)
    if name == "looked_up":
        return see.looked_up(spec["kafka"]["value"])
    return getattr(see, name)(spec)


def specs(row: Row, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = row.path.partition(".")[0]
    before, after = row.documents({kind: {}})
    return in_folder(before, folder), in_folder(after, folder)


TABLES = (("source", SOURCES), ("sink", SINKS), ("client", CLIENTS))
SEEN = [(part, row) for part, table in TABLES for row in table if not row.refused]
REFUSED = [(part, row) for part, table in TABLES for row in table if row.refused]
JUDGES = {"source": sources.describe, "sink": sinks.describe, "client": clients.settings_of}


@pytest.mark.parametrize(("part", "row"), SEEN, ids=str)
def test_a_change_of_a_setting_is_seen(
    part: str, row: Row, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = specs(row, folder)
    told = viewed(row.sees, before, folder, monkeypatch)
    assert told == viewed(row.sees, before, folder, monkeypatch), "what is compared must not differ by itself"
    assert told != viewed(row.sees, after, folder, monkeypatch)


@pytest.mark.parametrize(("part", "row"), REFUSED, ids=str)
def test_what_would_have_no_effect_is_refused_with_what_to_do(part: str, row: Row, folder: Path) -> None:
    after = specs(row, folder)[1]
    with pytest.raises(FlameStreamError) as caught:
        JUDGES[part](after, f"spec.{part}s.it")
    assert row.refused in str(caught.value)
    assert str(caught.value).startswith(f"spec.{part}s.it.{row.path.partition('.')[0]}")
