"""Sinks: what a manifest may name, whether it can fence, its consumer, and how to read what it holds.

| kind     | keeps last bundles and fences | for                                        |
|----------|-------------------------------|--------------------------------------------|
| files    | yes: a shared folder          | one machine, or a cluster file system      |
| rolling  | yes: a folder or S3           | Parquet or JSON lines for others to read   |
| socket   | yes: the far end does         | consumers in any language                  |
| connector| if its class says so          | a sink of one's own (docs/reference/connectors.md)   |
| callback | no                            | tests and benchmarks in the worker         |
| kafka    | yes: in a control topic       | consumers of a topic                       |
| discard  | no                            | measuring what a graph costs without output|
| http     | if the far end says so        | servers of any kind                        |
| events   | yes: a shared folder          | browsers                                   |
| postgres | yes: a table beside the rows  | rows that anybody can query                |
| redis    | yes: a hash beside the entries| a hash to look up in, a stream to follow   |

>>> describe({"discard": {}}).fences
False
>>> describe({"files": {}}, "spec.sinks.index")
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sinks.index.files: Object missing required field `path`

Does not: read the manifest's file (job/manifest.py), or refuse a sink (it says why one must be refused).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from flamestream.connectors.files.sink import Writing
from flamestream.connectors.kafka.sink import KafkaConsumer, KafkaSinkSpec
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.item_columns import SPECIAL
from flamestream.connectors.kit.own import Connector, sink_class
from flamestream.connectors.kit.spec import address_of, check_dsn, check_redis, function_of, hash_tag, need, one_of, secret_of
from flamestream.connectors.rolling import reading as rolling_reading
from flamestream.connectors.rolling.consumer import RollingConsumer
from flamestream.connectors.rolling.parts import part_format
from flamestream.connectors.rolling.spec import Rolling
from flamestream.connectors.socket.sink import SocketConsumer
from flamestream.connectors.synthetic.callback import CallbackConsumer
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.reading import Item, read_all, read_items
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.meta import Meta
from flamestream.net.kafka.clients import require_package
from flamestream.ports import Consumer, ObjectStore, Post, Reactor
from flamestream.store.places import store_from

__all__ = ["Item", "SinkTraits", "build", "check_classes", "describe", "read", "read_all", "settings_of"]


class FilesSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder, which belongs to this sink alone."""

    path: str
    """A folder, made if it is not there."""
    fsync: bool = True
    """False: what is acknowledged survives the process but not the machine."""


class SocketSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A consumer to dial; see docs/reference/wire-protocol.md."""

    address: str
    """host:port of the consumer."""

    def __post_init__(self) -> None:
        address_of(self.address)


class CallbackSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function (`module:name`) that gets the items of a bundle as a list of (meta, payload)."""

    function: str
    """module:name."""


class DiscardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing is kept."""


class PostgresSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table; see docs/reference/postgres.md."""

    dsn: str
    """A connection string without a password, like postgresql://user@host:5432/database."""
    table: str
    """An existing table, perhaps with its schema; names are as in the catalogue."""
    columns: list[str] | dict[str, str]
    """Columns, and what goes there: a field of the payload, or one of $payload, $meta, $time, $slot, $bundle, $sink."""
    key: list[str] = []
    """Columns that name a row: rows are replaced. Without it they are appended."""
    state: str = "flamestream_slots"
    """Our table of last bundles; many sinks may share it."""
    history: str | None = None
    """A table of this sink alone that keeps every bundle, for `cat` and `audit`."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("`columns` needs at least one column")
        if strange := [column for column in self.key if column not in self.columns]:
            raise ValueError(f"`key` names {', '.join(strange)}, which `columns` has not")
        if strange := [path for path in self.sources.values() if path.startswith("$") and path not in SPECIAL]:
            raise ValueError(f"`columns`: there is no {', '.join(strange)}; choose a field, or one of {', '.join(SPECIAL)}")
        check_dsn(self.dsn)

    @property
    def sources(self) -> dict[str, str]:
        """What goes into each column."""
        return self.columns if isinstance(self.columns, dict) else {column: column for column in self.columns}


_ENTRY: Final = {"meta": "$meta", "payload": "$payload"}
"""What an entry of a Redis stream holds where nobody says it."""


class RedisSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A hash or a stream; see docs/reference/redis.md."""

    url: str
    """redis://user@host:6379/0, rediss:// for TLS, or unix:///path; without a password."""
    form: Literal["hash", "stream"]
    """hash: an entry is set, the last one counts. stream: an entry is appended."""
    key: str
    """Name of the hash or stream."""
    field: str | list[str] = []
    """Of a hash: what names an entry, fields of the payload or any of $payload, $meta, $time, $slot, $bundle, $sink; colons between."""
    value: str = "$payload"
    """Of a hash: what an entry holds."""
    fields: list[str] | dict[str, str] = msgspec.field(default_factory=lambda: dict(_ENTRY))
    """Of a stream: an entry's fields, and what goes there."""
    max_length: int | None = None
    """Of a stream: about so many of the newest entries stay."""
    history: str | None = None
    """A name, of this sink alone, under which every bundle is kept, for `cat` and `audit`."""
    durable: bool = True
    """False: for a server that may forget, which needs `guarantee: at-least-once`."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if (self.form == "hash") != bool(self.names):
            raise ValueError("`form: hash` needs `field`, which names an entry, and `form: stream` has none")
        if not self.sources:
            raise ValueError("`fields` needs at least one field")
        if self.form == "hash" and self.fields != _ENTRY:
            raise ValueError("`fields` is of a stream: what an entry of a hash holds is its `value`")
        if self.form == "stream" and self.value != "$payload":
            raise ValueError("`value` is of a hash: what an entry of a stream holds are its `fields`")
        if strange := [source for source in (*self.names, *self.sources.values()) if source.startswith("$") and source not in SPECIAL]:
            raise ValueError(f"there is no {', '.join(strange)}; choose a field, or one of {', '.join(SPECIAL)}")
        if self.max_length is not None and (self.form == "hash" or self.max_length < 1):
            raise ValueError("`max_length` is of a stream, and at least 1")
        if self.history is not None and not self.durable:
            raise ValueError("`history` needs `durable`")
        check_redis(self.url)
        hash_tag(self.key)

    @property
    def names(self) -> list[str]:
        """What names an entry of a hash."""
        return [self.field] if isinstance(self.field, str) else self.field

    @property
    def sources(self) -> dict[str, str]:
        """What goes into each field."""
        if self.form == "hash":
            return {"value": self.value}
        return self.fields if isinstance(self.fields, dict) else {field: field for field in self.fields}


class EventsSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Server-sent events for browsers, over a folder as of a files sink; see docs/reference/http.md."""

    path: str
    """The folder."""
    listen: str
    """host:port."""
    url: str = "/events"
    """Where browsers ask, on that port."""
    allow_origin: str | None = None
    """For pages of another origin, e.g. https://example.org or *."""
    fsync: bool = True
    """False: what is acknowledged survives the process but not the machine."""
    poll_ms: int = 20
    """How often a client's stream looks for what is new."""

    def __post_init__(self) -> None:
        address_of(self.listen)
        if not self.url.startswith("/") or self.poll_ms < 1:
            raise ValueError("`url` begins with /, and `poll_ms` is at least 1")
        need("h11", "http")


_BATCH: Final = 100


class HttpSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server to POST to; see docs/reference/http.md."""

    url: str
    """http://host/path or https://host/path."""
    contract: Literal["fenced", "idempotent"]
    """What the server keeps: fences and last bundles, or ids of items."""
    timeout_ms: int = 10_000
    """The longest wait for an answer."""
    batch: int = _BATCH
    """Of `idempotent`: items in a request."""
    token_file: str | None = None
    """Its content is sent as the bearer token."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("`url` begins with http:// or https://")
        if min(self.timeout_ms, self.batch) < 1:
            raise ValueError("`timeout_ms` and `batch` have to be at least 1")
        if self.contract == "fenced" and self.batch != _BATCH:
            raise ValueError("`batch` is of `contract: idempotent`: under `fenced` a request is a delivery, whole")


SinkSpec = (
    FilesSpec
    | Rolling
    | SocketSpec
    | Connector
    | CallbackSpec
    | DiscardSpec
    | KafkaSinkSpec
    | PostgresSpec
    | EventsSpec
    | HttpSpec
    | RedisSpec
)
_KINDS: Final[dict[str, type[SinkSpec]]] = {
    "files": FilesSpec,
    "socket": SocketSpec,
    "callback": CallbackSpec,
    "discard": DiscardSpec,
    "kafka": KafkaSinkSpec,
    "postgres": PostgresSpec,
    "rolling": Rolling,
    "connector": Connector,
    "events": EventsSpec,
    "http": HttpSpec,
    "redis": RedisSpec,
}
_CANNOT_FENCE: Final = (
    "a {} sink cannot fence: it does not keep the last bundle of each slot, so after a failure it would get items twice. "
    "Choose a `files`, `rolling`, `socket`, `kafka`, `postgres` or `redis` sink, or `guarantee: at-least-once`"
)
_IDEMPOTENT: Final = (
    "a server that only drops repeated ids cannot keep out a worker that was replaced and wakes up again. Let it keep the contract "
    "`fenced` (docs/reference/http.md, examples/http_consumer.py), or choose `guarantee: at-least-once`"
)


_FORGETS: Final = (
    "with `durable: false` the server may forget what it acknowledged, and nothing is fenced. Leave it out (the server then needs "
    "`appendonly yes` and `appendfsync always`), or choose `guarantee: at-least-once`"
)


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """What the engine has to know of a sink."""

    fences: bool
    refusal: str = ""
    """Why it must be refused under exactly-once, and what to choose; "" if it need not be."""


def describe(spec: object, where: str = "sink") -> SinkTraits:
    """Check `spec` and say what it is. Raises ManifestError that begins with the wrong field's place below `where`."""
    match one_of(spec, _KINDS, where):
        case Connector() as connector:
            fences = sink_class(connector, f"{where}.connector").fences
            return SinkTraits(fences, "" if fences else f"{where}: {_CANNOT_FENCE.format(connector.name)}")
        case CallbackSpec():
            return SinkTraits(False, f"{where}: {_CANNOT_FENCE.format('callback')}")
        case DiscardSpec():
            return SinkTraits(False, f"{where}: {_CANNOT_FENCE.format('discard')}")
        case HttpSpec(contract="idempotent"):
            return SinkTraits(False, f"{where}: {_IDEMPOTENT}")
        case RedisSpec(durable=False):
            return SinkTraits(False, f"{where}: {_FORGETS}")
        case KafkaSinkSpec():
            require_package(where)
            return SinkTraits(True)
        case _:
            return SinkTraits(True)


def settings_of(spec: object, where: str = "sink") -> SinkSpec:
    """What a manifest says, checked. Raises ManifestError."""
    return one_of(spec, _KINDS, where)


def check_classes(spec: object, where: str = "sink") -> None:
    """Whether the classes that `spec` names are there, and fit; the application must be loaded. Raises ManifestError like `describe`."""
    match one_of(spec, _KINDS, where):
        case Rolling(format=form, type=name):
            part_format(form, name, f"{where}.rolling.type")
        case _:
            return


def build(spec: object, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor) -> Consumer:
    """The consumer of sink `sink` for worker `writer`."""
    where = f"spec.sinks.{sink}"
    match one_of(spec, _KINDS, where):
        case FilesSpec(path=path, fsync=fsync):
            return BlockingConsumer(Writing(FencedFolder(Path(path)), fsync, job, sink, writer), sink, post, reactor)
        case Rolling() as rolling:
            return RollingConsumer(rolling, f"{where}.rolling", sink, writer, job, post, reactor)
        case SocketSpec(address=address):
            return SocketConsumer(address_of(address), sink, writer, job, post, reactor)
        case Connector() as connector:
            made = sink_class(connector, f"{where}.connector")(connector.settings, sink, writer, job)
            return BlockingConsumer(made, sink, post, reactor)
        case CallbackSpec(function=function):
            return CallbackConsumer(function_of(function, f"{where}.callback.function"), sink, post, reactor)
        case KafkaSinkSpec() as kafka:
            return KafkaConsumer(kafka, sink, writer, job, post, reactor)
        case DiscardSpec():
            return CallbackConsumer(None, sink, post, reactor)
        case PostgresSpec() as postgres:
            return _postgres(postgres, sink, job, post, reactor)
        case RedisSpec() as redis:
            return _redis(redis, sink, job, post, reactor)
        case HttpSpec() as http:
            return _http(http, sink, writer, job, post, reactor)
        case EventsSpec() as events:
            files = Writing(FencedFolder(Path(events.path)), events.fsync, job, sink, writer)
            return _events(events, BlockingConsumer(files, sink, post, reactor), reactor)


def read(spec: object, where: str = "sink", job: str = "") -> Iterator[Item]:
    """All items that a sink holds, in the total order: (meta, slot, sequence, payload). Raises UserError if they are not of `job`."""
    of = (job, where.removeprefix("spec.sinks.")) if job else None
    match one_of(spec, _KINDS, where):
        case FilesSpec(path=path) | EventsSpec(path=path):
            return read_items(Path(path), of)
        case PostgresSpec(history=history) as postgres if history is not None:
            from flamestream.connectors.postgres.reading import read_history  # psycopg is there only if it is used

            return read_history(postgres.dsn, postgres.password_file, history)
        case PostgresSpec(table=table):
            raise UserError(f"{where}: table {table} has rows, not what was delivered in which order; set `history` to keep that as well")
        case KafkaSinkSpec() as kafka:
            from flamestream.connectors.kafka.reading import read_topic  # confluent-kafka is there only if it is used

            return read_topic(kafka, job, where)
        case RedisSpec(history=history) as redis:
            if history is None:
                raise UserError(
                    f"{where}: {redis.key} has entries, not what was delivered in which order; set `history` to keep that as well"
                )
            return _read_redis(redis, history, job, where.removeprefix("spec.sinks."))
        case Rolling(path=path):
            return _read_rolling(store_from(path, setting=f"{where}.rolling.path"), f"{where}.rolling", of)
        case _:
            kinds = "a `files`, `rolling` or `kafka` sink, or a `postgres` or `redis` one with a `history`,"
            raise UserError(f"{where}: only {kinds} can be read back; what others got is with whom they delivered to")


def has_history(spec: object) -> bool:
    """Whether `read` gives what was delivered in the order in which it was, and not only what stands somewhere now."""
    match one_of(spec, _KINDS, "sink"):
        case PostgresSpec(history=history) | RedisSpec(history=history):
            return history is not None
        case KafkaSinkSpec():
            return False
    return True


def _postgres(spec: PostgresSpec, sink: SinkName, job: str, post: Post, reactor: Reactor) -> Consumer:
    from flamestream.connectors.postgres.server import Server  # psycopg is there only if it is used
    from flamestream.connectors.postgres.sink import PostgresPlace, PostgresWriting

    place = PostgresPlace(spec.table, spec.sources, spec.key, spec.state, spec.history)
    writing = PostgresWriting(Server(spec.dsn, spec.password_file, "flamestream"), place, job, sink)
    return BlockingConsumer(writing, sink, post, reactor)


def _redis(spec: RedisSpec, sink: SinkName, job: str, post: Post, reactor: Reactor) -> Consumer:
    from flamestream.connectors.redis.entries import EntryMaker
    from flamestream.connectors.redis.server import Server  # only if it is used, like redis itself
    from flamestream.connectors.redis.sink import RedisPlace, RedisWriting

    server = Server(spec.url, spec.password_file, f"flamestream-{job}/{sink}", durable=spec.durable)
    place = RedisPlace(spec.form, spec.key, spec.max_length, spec.history, spec.durable)
    return BlockingConsumer(RedisWriting(server, place, EntryMaker(spec.names, spec.sources, sink), job, sink), sink, post, reactor)


def _read_redis(spec: RedisSpec, history: str, job: str, sink: str) -> Iterator[Item]:
    from flamestream.connectors.redis.reading import read_history
    from flamestream.connectors.redis.server import Server
    from flamestream.connectors.redis.sink import history_key, state_key

    server = Server(spec.url, spec.password_file, "flamestream-cat")
    return read_history(server, history_key(spec.key, history), state_key(spec.key, job, sink))


def _events(spec: EventsSpec, files: BlockingConsumer, reactor: Reactor) -> Consumer:
    from flamestream.connectors.http.events import EventsConsumer, EventsPlace  # h11 is there only if it is used

    place = EventsPlace(Path(spec.path), address_of(spec.listen), spec.url, spec.allow_origin, spec.poll_ms / 1000)
    return EventsConsumer(files, place, reactor)


def _http(spec: HttpSpec, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor) -> Consumer:
    from flamestream.connectors.http.sink import HttpPlace, HttpWriting  # urllib3 takes a while to import

    headers = {}
    if spec.token_file is not None:
        headers["authorization"] = f"Bearer {secret_of(spec.token_file, f'spec.sinks.{sink}.http.token_file')}"
    place = HttpPlace(spec.url, spec.contract, spec.timeout_ms / 1000, spec.batch, headers)
    return BlockingConsumer(HttpWriting(place, job, sink, writer), sink, post, reactor)


def _read_rolling(store: ObjectStore, where: str, of: tuple[str, str] | None) -> Iterator[Item]:
    for meta, slot, sequence, payload in rolling_reading.rows(store, where, of):
        yield Meta(meta), Slot(slot), SequenceNumber(sequence), payload
