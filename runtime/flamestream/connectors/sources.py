"""Sources: what a manifest may name, what the engine has to know of each, and its producer.

| kind      | front                                    | offset counts                    | read again from       |
|-----------|------------------------------------------|----------------------------------|-----------------------|
| files     | timed; journalled with `follow: true`    | records; of each file if followed| the files             |
| generator | timed                                    | numbers                          | the numbers           |
| socket    | journalled, with its payloads            | records                          | the journal           |
| postgres  | journalled                               | the table's key                  | the table             |
| connector | as its class says                        | as its class says                | as its class says     |
| http      | journalled, with its payloads            | records                          | the journal           |
| memory    | journalled                               | records of each partition        | this process (tests)  |
| redis     | journalled                               | the stream's ids, with gaps      | the stream            |
| kafka     | journalled; several share the partitions | the partition's, with gaps       | the topic             |

>>> describe({"generator": {"count": 10}})
SourceTraits(timed=True, run_length=64, replayable=True, bounded=True, answers=False, fronts=1, skips=False, start=0)
>>> describe({"files": {"path": "in", "folow": True}}, "spec.sources.docs")
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sources.docs.files: Object contains unknown field `folow` (its fields: path, paths, ...)

Does not: read the manifest's file (job/manifest.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from flamestream.connectors.files.spec import FilesSpec, reader
from flamestream.connectors.kafka.source import KafkaProducer, KafkaSourceSpec
from flamestream.connectors.kit.own import Connector, source_class
from flamestream.connectors.kit.producer import ReadingProducer
from flamestream.connectors.kit.rows import row_class
from flamestream.connectors.kit.server_producer import ServerProducer
from flamestream.connectors.kit.spec import address_of, check_dsn, check_redis, function_of, need, one_of, secret_of
from flamestream.connectors.socket.source import SocketProducer
from flamestream.connectors.synthetic.generator import GeneratorProducer
from flamestream.connectors.synthetic.memory import MemoryProducer, channel_named
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.errors import Bug
from flamestream.model.records import Document
from flamestream.model.time import FrontId
from flamestream.net.kafka.clients import require_package
from flamestream.ports import Post, Producer, Reactor

__all__ = ["Document", "SourceTraits", "build", "check_classes", "describe", "outlined", "share_of"]

MAX_RUN_LENGTH: Final = 64
_RUNS_A_SECOND: Final = 1000


class GeneratorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers, or a function (`module:name`) of each."""

    count: int | None = None
    """So many numbers; left out: for ever."""
    rate: float | None = None
    """Numbers a second."""
    function: str | None = None
    """What a record is, of each number; left out: the number."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ValueError("`count` cannot be negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError("`rate` must be above 0; leave it out for as fast as possible")


class ParquetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What rows of Parquet were called before: refused, with what to write."""

    path: str = "..."
    """No longer: see `files`."""

    def __post_init__(self) -> None:
        raise ValueError(
            f'write files: {{path: {self.path}, pattern: "**/*.parquet", format: parquet, tuples: true}} (and `columns`, if any)'
        )


class SocketSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A producer to dial; see docs/reference/wire-protocol.md."""

    address: str
    """host:port of the producer."""
    payload: Literal["text", "bytes"] = "text"
    """What a record is."""

    def __post_init__(self) -> None:
        address_of(self.address)


class MemorySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel of this process."""

    name: str
    """The channel's."""


class PostgresSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change log: a table whose rows are read in the order of a growing key; see docs/reference/postgres.md."""

    dsn: str
    """A connection string without a password, like postgresql://user@host:5432/database."""
    table: str
    """Its name as the catalogue has it, perhaps with a schema."""
    key: str
    """An integer column that grows, with a unique index."""
    columns: list[str]
    """One: records are its values; more: tuples."""
    follow: bool = True
    """False: end at the end of the table."""
    start: int = 0
    """The least key to read."""
    poll_ms: int = 25
    """How often an idle table is looked at."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("`columns` needs at least one column")
        if self.poll_ms < 1 or self.start < 0:
            raise ValueError("`poll_ms` has to be at least 1, and `start` at least 0")
        check_dsn(self.dsn)


class RedisSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A stream of Redis; see docs/reference/redis.md."""

    url: str
    """redis://user@host:6379/0, rediss:// for TLS, or unix:///path; without a password."""
    key: str
    """Name of the stream."""
    fields: list[str] = []
    """One: records are its values; more: tuples; none: maps of all."""
    values: Literal["text", "bytes"] = "text"
    """What a field's value is."""
    start: str = "0-0"
    """The least id to read."""
    follow: bool = True
    """False: end at the end of the stream."""
    durable: bool = True
    """False: for a server that may forget entries that it acknowledged; a replay that misses some is an error."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        check_redis(self.url)
        self.start_offset()

    def start_offset(self) -> int:
        """Raises ValueError."""
        from flamestream.connectors.redis.source import offset_of

        return offset_of(self.start)


class HttpSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A port that clients POST to; see docs/reference/http.md."""

    listen: str
    """host:port."""
    keys: str
    """A folder of this source alone, for the idempotency keys."""
    path: str = "/"
    """Where clients POST to."""
    payload: Literal["text", "bytes"] = "text"
    """What a record is; text is checked to be UTF-8."""
    records: Literal["body", "lines"] = "body"
    """A record is a body, or each line of it; lines enter as one run."""
    remember: int = 100_000
    """Requests: a retry that comes later is a new one."""
    fsync: bool = True
    """Of the keys: survive the machine, not only the processes."""
    max_body: int = 1 << 20
    """Bytes of a request."""
    max_waiting: int = 8 << 20
    """Bytes of requests that wait to enter; what comes beyond gets 503."""
    token_file: str | None = None
    """Clients send its content as their bearer token."""

    def __post_init__(self) -> None:
        address_of(self.listen)
        if not self.path.startswith("/"):
            raise ValueError("`path` begins with /")
        if min(self.remember, self.max_body, self.max_waiting - self.max_body + 1) < 1:
            raise ValueError("`remember` and `max_body` have to be at least 1, and `max_waiting` at least `max_body`")
        need("h11", "http")


SourceSpec = (
    FilesSpec | GeneratorSpec | ParquetSpec | SocketSpec | Connector | MemorySpec | KafkaSourceSpec | PostgresSpec | HttpSpec | RedisSpec
)
_KINDS: Final[dict[str, type[SourceSpec]]] = {
    "files": FilesSpec,
    "generator": GeneratorSpec,
    "parquet": ParquetSpec,
    "socket": SocketSpec,
    "connector": Connector,
    "memory": MemorySpec,
    "kafka": KafkaSourceSpec,
    "postgres": PostgresSpec,
    "http": HttpSpec,
    "redis": RedisSpec,
}


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What the engine has to know of a source."""

    timed: bool
    run_length: int
    """TIMED: a run has exactly this many records (the last one fewer), so that the same input has the same times."""
    replayable: bool
    """False: the payloads are journalled, and ReadRun is never asked."""
    bounded: bool
    answers: bool = False
    """Clients are answered when their records are durable, so something has to make them durable."""
    fronts: int = 1
    """They share what the source has, so that several workers read it."""
    skips: bool = False
    """Offsets have gaps that are not written down: an entry of no records, read again, is refused if its gap holds any."""
    start: int = 0
    """The first offset of a partition, unless its first run says another."""


def describe(spec: object, where: str = "source") -> SourceTraits:
    """Check `spec` and say what it is. Raises ManifestError that begins with the wrong field's place below `where`."""
    match one_of(spec, _KINDS, where):
        case FilesSpec(follow=True):
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)
        case FilesSpec() as files:
            return SourceTraits(timed=True, run_length=MAX_RUN_LENGTH if files.by_line else 1, replayable=True, bounded=True)
        case GeneratorSpec(count=count, rate=rate):
            length = MAX_RUN_LENGTH if rate is None else max(1, min(MAX_RUN_LENGTH, int(rate / _RUNS_A_SECOND)))
            return SourceTraits(timed=True, run_length=length, replayable=True, bounded=count is not None)
        case ParquetSpec():
            raise Bug("it is refused")
        case SocketSpec():
            return SourceTraits(timed=False, run_length=0, replayable=False, bounded=False)
        case Connector() as connector:
            cls = source_class(connector, f"{where}.connector")
            return SourceTraits(cls.timed, MAX_RUN_LENGTH if cls.timed else 0, replayable=True, bounded=cls.bounded, skips=True)
        case MemorySpec():
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)
        case KafkaSourceSpec(readers=readers):
            require_package(where)
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False, fronts=readers)
        case PostgresSpec(follow=follow, start=start):
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=not follow, skips=True, start=start)
        case RedisSpec(follow=follow) as redis:
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=not follow, start=redis.start_offset())
        case HttpSpec():
            return SourceTraits(timed=False, run_length=0, replayable=False, bounded=False, answers=True)


def outlined(spec: object, where: str = "source") -> SourceTraits:
    """`describe` for who does not have the application: of a class of its own only that it is one front, perhaps journalled."""
    if isinstance(one_of(spec, _KINDS, where), Connector):
        return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)
    return describe(spec, where)


def share_of(fronts: Sequence[FrontSettings], front: FrontId) -> int:
    """Which of its source's fronts `front` is, from 0."""
    return sum(1 for other in fronts[:front] if other.source == fronts[front].source)


def check_classes(spec: object, where: str = "source") -> None:
    """Whether the classes that `spec` names are there; the application must be loaded. Raises ManifestError like `describe`."""
    match one_of(spec, _KINDS, where):
        case FilesSpec(type=name):
            row_class(name, f"{where}.files.type")
        case _:
            return


def build(spec: object, front: FrontId, post: Post, reactor: Reactor, *, name: str = "source", job: str = "", share: int = 0) -> Producer:
    """The producer of front `front`, the source's front number `share`. `name` is the source's in the manifest, for messages."""
    where = f"spec.sources.{name}"
    match one_of(spec, _KINDS, where):
        case FilesSpec() as files:
            return ReadingProducer(reader(files, name, where), front, post, reactor)
        case GeneratorSpec(count=count, rate=rate, function=function):
            called = None if function is None else function_of(function, f"{where}.generator.function")
            return GeneratorProducer(count, rate, called, front, post, reactor)
        case ParquetSpec():
            raise Bug("it is refused")
        case SocketSpec(address=address, payload=payload):
            return SocketProducer(address_of(address), payload == "bytes", name, job, front, post, reactor)
        case Connector() as connector:
            made = source_class(connector, f"{where}.connector")(connector.settings, name)
            return ReadingProducer(made, front, post, reactor)
        case MemorySpec(name=channel):
            return MemoryProducer(channel_named(channel), front, post, reactor)
        case KafkaSourceSpec() as kafka:
            return KafkaProducer(kafka, share, name, job, front, post, reactor)
        case PostgresSpec() as postgres:
            return _postgres(postgres, name, front, post, reactor)
        case HttpSpec() as http:
            return _http(http, name, front, post, reactor)
        case RedisSpec() as redis:
            return _redis(redis, name, front, post, reactor)


def _postgres(spec: PostgresSpec, name: str, front: FrontId, post: Post, reactor: Reactor) -> Producer:
    from flamestream.connectors.postgres.server import Server  # psycopg is there only if it is used
    from flamestream.connectors.postgres.source import ChangeLog, PostgresReader

    log = ChangeLog(spec.table, spec.key, spec.columns, spec.follow, spec.start, spec.poll_ms / 1000)
    server = Server(spec.dsn, spec.password_file, f"flamestream source {name}"[:63])
    return ServerProducer(PostgresReader(server, log, name), front, post, reactor)


def _redis(spec: RedisSpec, name: str, front: FrontId, post: Post, reactor: Reactor) -> Producer:
    from flamestream.connectors.redis.server import Server  # only if it is used, like redis itself
    from flamestream.connectors.redis.source import RedisReader, Stream

    stream = Stream(spec.key, spec.fields, spec.values == "bytes", spec.start_offset(), spec.follow)
    server = Server(spec.url, spec.password_file, f"flamestream-source-{name}", durable=spec.durable)
    return ServerProducer(RedisReader(server, stream, name), front, post, reactor)


def _http(spec: HttpSpec, name: str, front: FrontId, post: Post, reactor: Reactor) -> Producer:
    from flamestream.connectors.http.source import HttpIngest, HttpProducer  # h11 is there only if it is used

    ingest = HttpIngest(
        address=address_of(spec.listen),
        path=spec.path,
        as_bytes=spec.payload == "bytes",
        by_line=spec.records == "lines",
        most_body=spec.max_body,
        most_waiting_bytes=spec.max_waiting,
        keys=Path(spec.keys),
        remember=spec.remember,
        fsync=spec.fsync,
        token=None if spec.token_file is None else secret_of(spec.token_file, f"spec.sources.{name}.http.token_file"),
    )
    return HttpProducer(ingest, name, front, post, reactor)
