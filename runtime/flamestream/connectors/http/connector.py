"""The kinds of a manifest that speak HTTP: a port to POST to, a server that is POSTed to, and events for browsers (docs/reference/http.md).

Does not: import h11 or urllib3 before they are used: h11 is an extra, and urllib3 takes a while.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.connector import (
    Connector,
    SinkContext,
    SinkSettings,
    SinkTraits,
    SourceContext,
    SourceSettings,
    SourceTraits,
)
from flamestream.connectors.kit.folder import Writing
from flamestream.connectors.kit.ownership import Owned, owner_of_logs, remove_logs
from flamestream.connectors.kit.spec import address_of, need, secret_of
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.reading import Item, read_items
from flamestream.ports import Consumer, Producer

_BATCH: Final = 100
_IDEMPOTENT: Final = (
    "a server that only drops repeated ids cannot keep out a worker that was replaced and wakes up again. Let it keep the contract "
    "`fenced` (docs/reference/http.md, examples/http_consumer.py), or choose `guarantee: at-least-once`"
)


class HttpSourceSpec(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A port that clients POST to; see docs/reference/http.md."""

    file_settings = ("keys", "token_file")
    own_files = {"keys": ("*.keys",)}
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

    def traits(self, where: str) -> SourceTraits:
        return SourceTraits(timed=False, run_length=0, replayable=False, bounded=False, answers=True)

    def producer(self, context: SourceContext) -> Producer:
        from flamestream.connectors.http.source import HttpIngest, HttpProducer

        ingest = HttpIngest(
            address=address_of(self.listen),
            path=self.path,
            as_bytes=self.payload == "bytes",
            by_line=self.records == "lines",
            most_body=self.max_body,
            most_waiting_bytes=self.max_waiting,
            keys=Path(self.keys),
            remember=self.remember,
            fsync=self.fsync,
            token=None if self.token_file is None else secret_of(self.token_file, f"{context.where}.http.token_file"),
        )
        return HttpProducer(ingest, context.name, context.front, context.post, context.reactor)


class HttpSinkSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server to POST to; see docs/reference/http.md."""

    file_settings = ("token_file",)
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

    def traits(self, where: str) -> SinkTraits:
        return SinkTraits(False, f"{where}: {_IDEMPOTENT}") if self.contract == "idempotent" else SinkTraits(True)

    def consumer(self, context: SinkContext) -> Consumer:
        from flamestream.connectors.http.sink import HttpPlace, HttpWriting

        headers = {}
        if self.token_file is not None:
            headers["authorization"] = f"Bearer {secret_of(self.token_file, f'{context.where}.http.token_file')}"
        place = HttpPlace(self.url, self.contract, self.timeout_ms / 1000, self.batch, headers)
        writing = HttpWriting(place, context.job, context.name, context.writer)
        return BlockingConsumer(writing, context.name, context.post, context.reactor)


class EventsSpec(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Server-sent events for browsers, over a folder as of a files sink; see docs/reference/http.md."""

    file_settings = ("path",)
    holder = "place"
    reads_back = True
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

    def consumer(self, context: SinkContext) -> Consumer:
        from flamestream.connectors.http.events import EventsConsumer, EventsPlace

        writing = Writing(FencedFolder(Path(self.path)), self.fsync, context.job, context.name, context.writer)
        files = BlockingConsumer(writing, context.name, context.post, context.reactor)
        place = EventsPlace(Path(self.path), address_of(self.listen), self.url, self.allow_origin, self.poll_ms / 1000)
        return EventsConsumer(files, place, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        return read_items(Path(self.path), (job, sink) if job else None)

    def place(self, job: str, sink: str) -> Place:
        from flamestream.connectors.http.events_place import EventsPlace

        return EventsPlace(Path(self.path))

    def owned(self) -> Owned | None:
        return owner_of_logs(self.path)

    def remove(self) -> None:
        remove_logs(self.path)


HTTP: Final = Connector("http", HttpSourceSpec, HttpSinkSpec)
EVENTS: Final = Connector("events", sink=EventsSpec)
