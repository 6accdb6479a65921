"""The redis kinds of a manifest: a stream that is read, a hash or a stream that results are entries of, and a
client for calls (docs/reference/redis.md).

Does not: connect (server.py), or import redis-py before it is used: it is an extra.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import msgspec

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.item_columns import SPECIAL
from flamestream.connectors.kit.producer import ServerProducer
from flamestream.connectors.kit.spec import need
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.reading import Item
from flamestream.model.errors import UserError
from flamestream.ports import Consumer, Producer

_ENTRY: Final = {"meta": "$meta", "payload": "$payload"}
"""The fields of a Redis stream's entry where nobody says them."""
_FORGETS: Final = (
    "with `durable: false` the server may forget what it acknowledged, and nothing is fenced. Leave it out "
    "(the server then needs `appendonly yes` and `appendfsync always`), or choose `guarantee: at-least-once`"
)


class RedisSourceSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A stream of Redis; see docs/reference/redis.md."""

    file_settings = ("password_file",)
    url: str
    """redis://user@host:6379/0, rediss:// for TLS, or unix:///path; without a password."""
    key: str
    """Name of the stream."""
    fields: list[str] = []
    """Fields that a record is made of. With one, records are its values; with more, tuples; with none, maps
    of all."""
    values: Literal["text", "bytes"] = "text"
    """The type of a field's value."""
    start: str = "0-0"
    """The least id to read."""
    follow: bool = True
    """False: end at the end of the stream."""
    durable: bool = True
    """False: for a server that may forget entries that it acknowledged; a replay that misses some is an
    error."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        check_redis(self.url)
        self.start_offset()

    def start_offset(self) -> int:
        """Raises ValueError."""
        from flamestream.connectors.redis.source import offset_of

        return offset_of(self.start)

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(
            timed=False, run_length=0, replayable=True, bounded=not self.follow, start=self.start_offset()
        )

    def producer(self, context: kit.SourceContext) -> Producer:
        from flamestream.connectors.redis.server import Server
        from flamestream.connectors.redis.source import RedisReader, Stream

        stream = Stream(self.key, self.fields, self.values == "bytes", self.start_offset(), self.follow)
        server = Server(
            self.url, self.password_file, f"flamestream-source-{context.name}", durable=self.durable
        )
        return ServerProducer(
            RedisReader(server, stream, context.name), context.front, context.post, context.reactor
        )

    def gives(self) -> kit.Gives:
        return kit.Gives(maps=not self.fields)


class RedisSinkSpec(kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A hash or a stream; see docs/reference/redis.md."""

    file_settings = ("password_file",)
    reads_back = True
    url: str
    """redis://user@host:6379/0, rediss:// for TLS, or unix:///path; without a password."""
    form: Literal["hash", "stream"]
    """hash: an entry is set, the last one counts. stream: an entry is appended."""
    key: str
    """Name of the hash or stream."""
    field: str | list[str] = []
    """The name of a hash's entry: fields of the payload or any of $payload, $meta, $time, $slot, $bundle,
    $sink; colons between."""
    value: str = "$payload"
    """The content of a hash's entry."""
    fields: list[str] | dict[str, str] = msgspec.field(default_factory=lambda: dict(_ENTRY))
    """The fields of a stream's entry, and what goes there."""
    max_length: int | None = None
    """About so many of a stream's newest entries stay."""
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
        if strange := [
            source
            for source in (*self.names, *self.sources.values())
            if source.startswith("$") and source not in SPECIAL
        ]:
            raise ValueError(
                f"there is no {', '.join(strange)}; choose a field, or one of {', '.join(SPECIAL)}"
            )
        if self.max_length is not None and (self.form == "hash" or self.max_length < 1):
            raise ValueError("`max_length` is of a stream, and at least 1")
        if self.history is not None and not self.durable:
            raise ValueError("`history` needs `durable`")
        check_redis(self.url)
        hash_tag(self.key)

    @property
    def names(self) -> list[str]:
        """The sources that name an entry of a hash."""
        return [self.field] if isinstance(self.field, str) else self.field

    @property
    def sources(self) -> dict[str, str]:
        """The source of each field."""
        if self.form == "hash":
            return {"value": self.value}
        return self.fields if isinstance(self.fields, dict) else {field: field for field in self.fields}

    def traits(self, where: str) -> kit.SinkTraits:
        return kit.SinkTraits(True) if self.durable else kit.SinkTraits(False, f"{where}: {_FORGETS}")

    def consumer(self, context: kit.SinkContext) -> Consumer:
        from flamestream.connectors.redis.entries import EntryMaker
        from flamestream.connectors.redis.server import Server
        from flamestream.connectors.redis.sink import RedisPlace, RedisWriting

        server = Server(
            self.url, self.password_file, f"flamestream-{context.job}/{context.name}", durable=self.durable
        )
        place = RedisPlace(self.form, self.key, self.max_length, self.history, self.durable)
        entries = EntryMaker(self.names, self.sources, context.name)
        writing = RedisWriting(server, place, entries, context.job, context.name)
        return BlockingConsumer(writing, context.name, context.post, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        if self.history is None:
            raise UserError(
                f"{where}: {self.key} has entries, not what was delivered in which order; set `history` to "
                "keep that as well"
            )
        from flamestream.connectors.redis.reading import read_history
        from flamestream.connectors.redis.server import Server
        from flamestream.connectors.redis.sink import history_key, state_key

        server = Server(self.url, self.password_file, "flamestream-cat")
        return read_history(server, history_key(self.key, self.history), state_key(self.key, job, sink))

    def in_order(self) -> bool:
        return self.history is not None

    def place(self, job: str, sink: str) -> Place:
        from flamestream.connectors.redis.place import EntriesPlace

        return EntriesPlace(self, sink)


class RedisClientSpec(kit.ClientSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A client for functions of calls; see docs/how-to/calls.md."""

    file_settings = ("password_file",)
    url: str
    """redis://user@host:6379/0, rediss:// for TLS, or unix:///path; without a password."""
    connections: int = 10
    """Connections of each worker at most; who finds none waits."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise ValueError("`connections` is at least 1")
        check_redis(self.url)

    def described(self) -> str:
        from flamestream.connectors.redis.server import described, parameters

        return described(parameters(self.url))

    def reached(self) -> Sequence[tuple[str, int]]:
        from flamestream.connectors.redis.server import parameters

        given = parameters(self.url)
        local = "path" in given
        return () if local else [(given.get("host", "localhost"), int(given.get("port", 6379)))]

    def opened(self, application: str) -> AbstractAsyncContextManager[Any]:
        from flamestream.connectors.redis.client import client

        return client(self.url, self.password_file, self.connections, application)


def check_redis(url: str) -> None:
    """Raises ValueError unless redis-py understands it, or if it is not installed."""
    need("redis", "redis")
    from flamestream.connectors.redis.server import parameters  # it is an extra

    parameters(url)


def hash_tag(key: str) -> str:
    """The part of a key of Redis that says where in a cluster it is; another key with it in braces is there
    too. Raises ValueError.

    >>> hash_tag("postings"), hash_tag("{shop}:postings")
    ('postings', 'shop')
    """
    _, brace, rest = key.partition("{")
    tag, end, _ = rest.partition("}")
    found = tag if brace and end else key
    if not found or "}" in found:
        raise ValueError(
            f"`key` is {key!r}, which has no hash tag that the sink's own keys could have too: write one, as "
            f"in {{shop}}:postings, or no braces"
        )
    return found


REDIS: Final = kit.Connector("redis", RedisSourceSpec, RedisSinkSpec, RedisClientSpec)
